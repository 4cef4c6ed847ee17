# SPDX-License-Identifier: MIT
# Functions that make targets; every target gets the same warnings, sanitizers and language.

set(WEIR_LIBRARIES "" CACHE INTERNAL "the libraries that exist, in order of dependence")

function(weir_left_out what why)
  message(STATUS "Weir: ${what} left out: ${why}")
endfunction()

# Warnings are of the project's own code only, so nothing here reaches a consumer.
function(weir_compile target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                         $<$<BOOL:${WEIR_WERROR}>:-Werror>)
  if(WEIR_ASSERT OR WEIR_ASSERT_SLOW)
    target_compile_definitions(${target} PRIVATE WEIR_ASSERT_ON=1)
  endif()
  if(WEIR_ASSERT_SLOW)
    target_compile_definitions(${target} PRIVATE WEIR_ASSERT_SLOW_ON=1)
  endif()
  if(WEIR_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${WEIR_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${WEIR_SANITIZE})
  endif()
  if(WEIR_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage -O0 -g)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

# The static library weir_NAME of all sources in DIR, on top of weir_BASE.
function(weir_library name dir base)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${dir}/*.c)
  if(NOT sources)
    weir_left_out(${dir} "it holds no sources")
    return()
  endif()
  add_library(weir_${name} STATIC ${sources})
  add_library(weir::${name} ALIAS weir_${name})
  weir_compile(weir_${name})
  target_compile_options(weir_${name} PRIVATE -Wc++-compat)
  set_target_properties(weir_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(weir_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${dir}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weir>)
  if(NOT name STREQUAL base)
    target_link_libraries(weir_${name} PUBLIC weir_${base})
  endif()
  set(WEIR_LIBRARIES "weir_${name};${WEIR_LIBRARIES}" CACHE INTERNAL "")
endfunction()

# One program per source in DIR, called weir_DIRNAME_STEM ("layout/hash.c": weir_layout_hash). They
# link with every library, and with what else is named.
function(weir_programs dir)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${dir}/*.c)
  get_filename_component(prefix ${dir} NAME)
  if(NOT sources)
    weir_left_out(${dir} "it holds no sources")
  endif()
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    add_executable(weir_${prefix}_${stem} ${source})
    weir_compile(weir_${prefix}_${stem})
    target_link_libraries(weir_${prefix}_${stem} PRIVATE ${ARGN} ${WEIR_LIBRARIES})
  endforeach()
endfunction()
