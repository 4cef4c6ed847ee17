# SPDX-License-Identifier: MIT
# libweir_runtime.so: one pool for each GPU of a process, which frameworks share. It holds the core,
# hosted and the CUDA backend, and shows nothing but its own calls.

if(NOT TARGET weir_cuda)
  weir_left_out("integrations" "they need backends/cuda")
  return()
endif()

file(GLOB weir_runtime_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/integrations/runtime/*.c
     ${PROJECT_SOURCE_DIR}/integrations/torch/*.c)
set(weir_runtime_map ${PROJECT_SOURCE_DIR}/integrations/runtime/runtime.map)
add_library(weir_runtime SHARED ${weir_runtime_sources})
add_library(weir::runtime ALIAS weir_runtime)
weir_compile(weir_runtime)
set_target_properties(weir_runtime PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 1
                      EXPORT_NAME runtime LINK_DEPENDS ${weir_runtime_map})
target_include_directories(weir_runtime
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/integrations/runtime>
         $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/integrations/torch>
         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weir>)
target_link_libraries(weir_runtime PRIVATE $<BUILD_INTERFACE:weir_cuda>)
target_link_options(weir_runtime PRIVATE -Wl,--version-script=${weir_runtime_map})
