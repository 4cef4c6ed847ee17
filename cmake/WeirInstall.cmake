# SPDX-License-Identifier: MIT
# Headers, static libraries, the CMake package `weir` (targets weir::core, weir::sim, weir::hosted,
# weir::host, weir::cuda, weir::runtime as far as built) and weir.pc.

include(CMakePackageConfigHelpers)

set(weir_headers core/weir.h)
set(weir_pc_libs "")
set(weir_pc_private "")
foreach(library ${WEIR_LIBRARIES})
  string(APPEND weir_pc_libs " -l${library}")
endforeach()
if(TARGET weir_hosted)
  list(APPEND weir_headers hosted/conf.h hosted/platform.h)
  set(weir_pc_private "${CMAKE_THREAD_LIBS_INIT}")
endif()
foreach(backend sim host)
  if(TARGET weir_${backend})
    list(APPEND weir_headers backends/${backend}/${backend}.h)
  endif()
endforeach()
if(TARGET weir_cuda)
  list(APPEND weir_headers backends/cuda/cuda_device.h backends/cuda/cuda_pool.h)
  string(APPEND weir_pc_private " -ldl")
endif()

set(weir_shared "")
if(TARGET weir_runtime)
  list(APPEND weir_headers integrations/runtime/weir_runtime.h integrations/torch/weir_torch.h)
  set(weir_shared weir_runtime)
endif()

install(FILES ${weir_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir)
install(TARGETS ${WEIR_LIBRARIES} ${weir_shared} EXPORT weir-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET weir)
  install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The Python package as `weir run` finds it, beside its start-up hook.
if(TARGET weir_runtime)
  set(weir_python_dir ${CMAKE_INSTALL_DATADIR}/weir/python)
  install(DIRECTORY integrations/python/src/weir DESTINATION ${weir_python_dir}
          PATTERN __pycache__ EXCLUDE)
  install(FILES integrations/runtime/weir_runtime.h DESTINATION ${weir_python_dir}/weir/native)
  install(FILES integrations/python/startup/sitecustomize.py
          DESTINATION ${weir_python_dir}/startup)
endif()

set(weir_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(EXPORT weir-targets NAMESPACE weir:: DESTINATION ${weir_cmake_dir})
configure_package_config_file(cmake/weir-config.cmake.in ${PROJECT_BINARY_DIR}/weir-config.cmake
                              INSTALL_DESTINATION ${weir_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weir-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weir-config.cmake
        ${PROJECT_BINARY_DIR}/weir-config-version.cmake DESTINATION ${weir_cmake_dir})

file(RELATIVE_PATH weir_pc_include ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
     ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/weir.pc.in ${PROJECT_BINARY_DIR}/weir.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
