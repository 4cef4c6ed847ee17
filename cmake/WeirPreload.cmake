# SPDX-License-Identifier: MIT
# libweir_preload.so: stands in front of the CUDA driver's memory calls of any program, and its
# tests, which run programs under it against the stand-in for libcuda.

set(weir_preload_why "")
if(NOT TARGET weir_runtime)
  set(weir_preload_why "it needs integrations/runtime")
elseif(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|aarch64)$" OR
       NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(weir_preload_why "it is for 64-bit x86 and ARM")
elseif(WEIR_SANITIZE)
  set(weir_preload_why "what is preloaded can't come before a sanitizer")
endif()
if(weir_preload_why)
  weir_left_out("integrations/preload" "${weir_preload_why}")
  return()
endif()

file(GLOB weir_preload_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/integrations/preload/*.c)
set(weir_preload_map ${PROJECT_SOURCE_DIR}/integrations/preload/preload.map)
add_library(weir_preload SHARED ${weir_preload_sources})
weir_compile(weir_preload)
target_compile_definitions(weir_preload PRIVATE
  WEIR_PRELOAD_RUNTIME="$<TARGET_SONAME_FILE_NAME:weir_runtime>")
target_include_directories(weir_preload PRIVATE ${PROJECT_SOURCE_DIR}/integrations/runtime)
target_link_libraries(weir_preload PRIVATE weir_hosted Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(weir_preload PRIVATE "LINKER:--version-script=${weir_preload_map}"
                    "LINKER:-z,defs")
set_target_properties(weir_preload PROPERTIES LINK_DEPENDS ${weir_preload_map})
# It opens the runtime when a program first wants memory, from the folder that it lies in itself.
add_dependencies(weir_preload weir_runtime)
set_target_properties(weir_preload weir_runtime PROPERTIES
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(WEIR_INSTALL)
  install(TARGETS weir_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  # Where `weir run` finds Python's start-up hook, and that the package.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/integrations/python/startup
                    ${PROJECT_SOURCE_DIR}/integrations/python/src/weir
          DESTINATION share/weir/python OPTIONAL PATTERN __pycache__ EXCLUDE)
endif()

# ---------------------------------------------------------------------------------------- tests --

# The stand-in as libcuda.so.1 in a folder of its own, where LD_LIBRARY_PATH leads programs to it.
function(weir_preload_standin)
  add_library(weir_preload_standin SHARED ${PROJECT_SOURCE_DIR}/tests/preload/standin.c)
  weir_compile(weir_preload_standin)
  target_link_libraries(weir_preload_standin PUBLIC weir_fakecuda PRIVATE ${CMAKE_DL_LIBS})
  target_include_directories(weir_preload_standin PUBLIC ${PROJECT_SOURCE_DIR}/tests/fakecuda
    ${PROJECT_SOURCE_DIR}/backends/cuda ${PROJECT_SOURCE_DIR}/core)
  target_link_options(weir_preload_standin PRIVATE "LINKER:-Bsymbolic")
  set_target_properties(weir_preload_standin PROPERTIES OUTPUT_NAME cuda VERSION 1 SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/preload)
endfunction()

# NAME [arguments of the program]: a program that the loader is made to run with the library.
function(weir_preload_test name)
  if(NOT TARGET preload_${name}_test)
    add_executable(preload_${name}_test ${PROJECT_SOURCE_DIR}/tests/preload/${name}.c)
    weir_compile(preload_${name}_test)
    file(STRINGS ${PROJECT_SOURCE_DIR}/tests/preload/${name}.c loads REGEX "#include .loaded.h" LIMIT_COUNT 1)
    if(loads) # it loads the driver itself
      target_include_directories(preload_${name}_test PRIVATE
        $<TARGET_PROPERTY:weir_preload_standin,INTERFACE_INCLUDE_DIRECTORIES>)
      add_dependencies(preload_${name}_test weir_preload_standin)
    else()
      target_link_libraries(preload_${name}_test PRIVATE weir_preload_standin)
    endif()
    target_link_libraries(preload_${name}_test PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  endif()
  string(JOIN _ test preload ${name} ${ARGN})
  add_test(NAME ${test} COMMAND preload_${name}_test ${ARGN})
  set_tests_properties(${test} PROPERTIES LABELS preload TIMEOUT 120 ENVIRONMENT
    "LD_PRELOAD=$<TARGET_FILE:weir_preload>;LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/preload;\
WEIR_CONF=limit_mb:128")
endfunction()

# The same program with a runtime of each kind.
function(weir_preload_runtimes)
  set(runtime ${PROJECT_SOURCE_DIR}/tests/preload/fakecudart.c)
  add_library(weir_preload_cudart SHARED ${runtime})
  add_library(weir_preload_cudart_threads STATIC ${runtime})
  target_compile_definitions(weir_preload_cudart_threads PRIVATE FAKECUDART_STREAMS=2)
  # It has CUDA's names, so it may not look like a library of Weir's.
  set_target_properties(weir_preload_cudart_threads PROPERTIES OUTPUT_NAME fakecudart_threads)
  foreach(library weir_preload_cudart weir_preload_cudart_threads)
    weir_compile(${library})
    target_link_libraries(${library} PUBLIC ${CMAKE_DL_LIBS})
  endforeach()
  foreach(kind cudart cudart_threads)
    add_executable(preload_${kind}_test ${PROJECT_SOURCE_DIR}/tests/preload/runtime.c)
    weir_compile(preload_${kind}_test)
    target_include_directories(preload_${kind}_test PRIVATE
      $<TARGET_PROPERTY:weir_preload_standin,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(preload_${kind}_test PRIVATE weir_preload_${kind})
    add_dependencies(preload_${kind}_test weir_preload_standin)
    weir_preload_test(${kind})
  endforeach()
  find_library(WEIR_CUDART_STATIC cudart_static HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
               PATH_SUFFIXES lib64 lib)
  if(NOT WEIR_CUDART_STATIC OR NOT WEIR_CUDA_INCLUDE)
    weir_left_out("tests/preload/static_cudart.c" "the static CUDA runtime was not found")
    return()
  endif()
  add_executable(preload_static_test ${PROJECT_SOURCE_DIR}/tests/preload/static_cudart.c)
  target_include_directories(preload_static_test SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
  target_link_libraries(preload_static_test PRIVATE ${WEIR_CUDART_STATIC} Threads::Threads
                        ${CMAKE_DL_LIBS} rt)
  weir_preload_script(same $<TARGET_FILE:weir_preload> ${PROJECT_BINARY_DIR}/preload
                      $<TARGET_FILE:preload_static_test>)
endfunction()

function(weir_preload_script name)
  add_test(NAME preload_${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/preload/${name}.sh ${ARGN})
  set_tests_properties(preload_${name} PROPERTIES LABELS preload TIMEOUT 120)
endfunction()

if(WEIR_TESTS AND TARGET weir_fakecuda)
  weir_preload_standin()
  foreach(name linked order procaddr forked threads leaks)
    weir_preload_test(${name})
  endforeach()
  weir_preload_test(procaddr deepbind)
  weir_preload_runtimes()
  weir_preload_script(places $<TARGET_FILE:weir_preload> $<TARGET_FILE:weir_runtime>
                      ${PROJECT_BINARY_DIR}/preload $<TARGET_FILE:preload_linked_test>)
  if(TARGET weir)
    add_dependencies(weir weir_preload)
    weir_preload_script(run $<TARGET_FILE:weir> ${PROJECT_BINARY_DIR}/preload
                        $<TARGET_FILE:preload_linked_test> $<TARGET_FILE:preload_leaks_test>)
  endif()
else()
  weir_left_out("tests/preload" "it needs the tests and the stand-in of tests/fakecuda")
endif()
