# SPDX-License-Identifier: MIT
# The race on a GPU (bench/gpu): racer, with Weir and the CUDA runtime, and racer_torch, with
# PyTorch's allocators. Off unless asked for, as it looks for things that nothing else needs:
#
#   WEIR_RACE=ON           build it
#   WEIR_RACE_TORCH=DIR    PyTorch's folder, with include/ and lib/; "": ask python3; OFF: without

option(WEIR_RACE "Build the race against other allocators (bench/gpu)" OFF)
set(WEIR_RACE_TORCH "" CACHE STRING "PyTorch's folder, empty to ask python3, or OFF")

function(weir_race_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench/gpu)
  target_link_libraries(${name} PRIVATE weir_race_parts)
endfunction()

# Reads gzip by itself only with a static zlib, so that the program also starts elsewhere.
function(weir_race_zlib)
  find_path(WEIR_RACE_ZLIB_INCLUDE zlib.h)
  find_library(WEIR_RACE_ZLIB libz.a)
  if(WEIR_RACE_ZLIB_INCLUDE AND WEIR_RACE_ZLIB)
    target_compile_definitions(weir_race_parts PRIVATE RACER_ZLIB=1)
    target_include_directories(weir_race_parts SYSTEM PRIVATE ${WEIR_RACE_ZLIB_INCLUDE})
    target_link_libraries(weir_race_parts PUBLIC ${WEIR_RACE_ZLIB})
  else()
    weir_left_out("gzip in the race" "there is no static zlib; unpack traces first")
  endif()
endfunction()

function(weir_race_parts)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/gpu/racer_*.c)
  add_library(weir_race_parts STATIC ${sources})
  weir_compile(weir_race_parts)
  target_include_directories(weir_race_parts PUBLIC ${PROJECT_SOURCE_DIR}/bench/gpu)
  target_link_libraries(weir_race_parts PUBLIC weir_cuda Threads::Threads)
  weir_race_zlib()
endfunction()

# The meter of the command is shared, so that calls are counted as `weir replay` counts them.
function(weir_race_weir)
  set(gpu ${PROJECT_SOURCE_DIR}/bench/gpu)
  set(tool ${PROJECT_SOURCE_DIR}/tools/weir)
  set(sources ${gpu}/entrants.c ${gpu}/entrant_weir.c ${tool}/meter.c ${tool}/clock.c)
  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::cudart_static)
    list(APPEND sources ${gpu}/entrant_runtime.c)
  endif()
  weir_race_program(racer ${sources})
  weir_compile(racer)
  target_include_directories(racer PRIVATE ${tool})
  target_link_libraries(racer PRIVATE weir_sim)
  if(TARGET CUDA::cudart_static)
    target_compile_definitions(racer PRIVATE RACER_RUNTIME=1)
    target_link_libraries(racer PRIVATE CUDA::cudart_static)
  else()
    weir_left_out("cudaMallocAsync in the race" "the CUDA runtime was not found")
  endif()
endfunction()

function(weir_race_torch_find result)
  set(folder "${WEIR_RACE_TORCH}")
  if(folder STREQUAL "")
    execute_process(COMMAND python3 -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT EXISTS "${folder}/include/c10/cuda/CUDACachingAllocator.h")
    set(folder "")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# libc10_cuda finds the runtime by itself where PyTorch is installed; here it is looked for so that
# the program links.
function(weir_race_torch)
  weir_race_torch_find(torch)
  find_package(CUDAToolkit QUIET)
  if(NOT torch)
    weir_left_out("PyTorch in the race" "it was not found; set WEIR_RACE_TORCH to its folder")
    return()
  elseif(NOT TARGET CUDA::cudart)
    weir_left_out("PyTorch in the race" "the CUDA runtime was not found")
    return()
  endif()
  weir_race_program(racer_torch ${PROJECT_SOURCE_DIR}/bench/gpu/entrant_torch.cc)
  set_target_properties(racer_torch PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
  target_compile_options(racer_torch PRIVATE -Wall -Wextra
                         $<$<BOOL:${WEIR_WERROR}>:-Werror>)
  target_include_directories(racer_torch SYSTEM PRIVATE ${torch}/include)
  target_link_libraries(racer_torch PRIVATE ${torch}/lib/libc10_cuda.so ${torch}/lib/libc10.so
                        CUDA::cudart)
endfunction()

if(NOT WEIR_RACE)
  weir_left_out("bench/gpu" "WEIR_RACE is OFF")
elseif(NOT TARGET weir_cuda OR NOT TARGET weir_sim)
  weir_left_out("bench/gpu" "it needs backends/cuda and backends/sim")
else()
  enable_language(CXX)
  weir_race_parts()
  weir_race_weir()
  if(NOT WEIR_RACE_TORCH STREQUAL "OFF")
    weir_race_torch()
  endif()
endif()
