# SPDX-License-Identifier: MIT
# The fuzz targets of fuzz/. Without an engine each is a program fuzz_NAME that replays files, a
# test that replays its corpus and every input that ever broke something, and a module by which
# AFL++ mutates. With one (WEIR_FUZZ_ENGINE, what to link: -fsanitize=fuzzer, or
# $LIB_FUZZING_ENGINE) the program is that engine's.

option(WEIR_FUZZ "Build the fuzz targets and replay their corpora" ${WEIR_TESTS})
set(WEIR_FUZZ_ENGINE "" CACHE STRING "What to link for a fuzzing engine; empty: replay only")

# What a target needs beside its own source: libraries, then further sources.
set(weir_fuzz_pool_needs weir_fuzz_world)
set(weir_fuzz_pages_needs weir_fuzz_world)
set(weir_fuzz_range_needs weir_fuzz_support)
set(weir_fuzz_range_sources range_picture.c)
set(weir_fuzz_conf_needs weir_fuzz_support weir_hosted)
set(weir_fuzz_trace_needs weir_fuzz_support weir_tool)
set(weir_fuzz_trace_sources trace_second.c)

function(weir_fuzz_library name base)
  add_library(${name} STATIC ${ARGN})
  weir_compile(${name})
  # Criterion's words may come without a message, which pedantic clang minds.
  target_compile_options(${name} PRIVATE $<$<C_COMPILER_ID:Clang>:-Wno-pedantic>)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/fuzz
    ${PROJECT_SOURCE_DIR}/tests/support ${PROJECT_SOURCE_DIR}/tests/plain)
  target_link_libraries(${name} PUBLIC ${base})
endfunction()

function(weir_fuzz_part name)
  set(shape fuzz/shape_${name}.c fuzz/fuzz_mutate.c)
  set(sources fuzz/fuzz_${name}.c ${shape})
  foreach(source ${weir_fuzz_${name}_sources})
    list(APPEND sources fuzz/${source})
  endforeach()
  if(WEIR_FUZZ_ENGINE)
    add_executable(fuzz_${name} ${sources})
    target_link_libraries(fuzz_${name} PRIVATE ${WEIR_FUZZ_ENGINE})
  else()
    add_executable(fuzz_${name} ${sources} fuzz/fuzz_replay.c)
    add_library(fuzz_${name}_mutator MODULE EXCLUDE_FROM_ALL ${shape})
    weir_compile(fuzz_${name}_mutator)
    weir_fuzz_test(${name})
  endif()
  weir_compile(fuzz_${name})
  target_compile_options(fuzz_${name} PRIVATE $<$<C_COMPILER_ID:Clang>:-Wno-pedantic>)
  target_link_libraries(fuzz_${name} PRIVATE ${weir_fuzz_${name}_needs})
endfunction()

function(weir_fuzz_test name)
  set(folders ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
  foreach(kind seeds crashes)
    if(EXISTS ${PROJECT_SOURCE_DIR}/fuzz/${kind}/${name})
      list(APPEND folders ${PROJECT_SOURCE_DIR}/fuzz/${kind}/${name})
    endif()
  endforeach()
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${folders})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

function(weir_fuzz)
  if(NOT WEIR_FUZZ)
    weir_left_out("fuzz" "WEIR_FUZZ is OFF")
    return()
  endif()
  if(NOT TARGET weir_hosted OR WEIR_SANITIZE MATCHES "thread")
    weir_left_out("fuzz" "it needs hosted, and has nothing for the thread sanitizer")
    return()
  endif()
  weir_fuzz_library(weir_fuzz_support weir_sim fuzz/fuzz_fail.c tests/support/rig.c
                    tests/support/model.c tests/support/memory.c)
  weir_fuzz_library(weir_fuzz_world weir_fuzz_support fuzz/world.c fuzz/world_device.c
                    fuzz/world_block.c fuzz/world_pins.c fuzz/world_pool.c)
  foreach(name pool pages range conf)
    weir_fuzz_part(${name})
  endforeach()
  if(TARGET weir_tool)
    weir_fuzz_part(trace)
    add_executable(fuzz_seed_make EXCLUDE_FROM_ALL fuzz/seed_make.c)
    weir_compile(fuzz_seed_make)
    target_link_libraries(fuzz_seed_make PRIVATE weir_fuzz_support weir_tool)
  else()
    weir_left_out("fuzz/fuzz_trace.c" "it tests the tool, which is left out")
  endif()
endfunction()

weir_fuzz()
