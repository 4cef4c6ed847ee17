# SPDX-License-Identifier: MIT
# The benchmarks: one program per source in bench/, on top of what bench/parts holds and of the
# command's library, which reads traces.

if(NOT WEIR_BENCH)
  weir_left_out("bench" "WEIR_BENCH is OFF")
elseif(NOT TARGET weir_tool)
  weir_left_out("bench" "it needs tools/weir")
else()
  include(CheckIncludeFile)
  check_include_file(valgrind/callgrind.h WEIR_HAVE_CALLGRIND_H)
  file(GLOB weir_bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/parts/*.c)
  add_library(weir_bench_parts STATIC ${weir_bench_sources})
  weir_compile(weir_bench_parts)
  target_include_directories(weir_bench_parts PUBLIC ${PROJECT_SOURCE_DIR}/bench/parts)
  target_link_libraries(weir_bench_parts PUBLIC weir_tool)
  if(WEIR_HAVE_CALLGRIND_H)
    target_compile_definitions(weir_bench_parts PUBLIC WEIR_BENCH_CALLGRIND=1)
  endif()
  weir_programs(bench weir_bench_parts)
endif()
