# SPDX-License-Identifier: MIT
# The programs of the hardware suite (tests/hardware), which ci/hardware.sh runs on a machine with a
# GPU. They need no test library and no CUDA compiler, except for the sanitizer's planted bugs.

option(WEIR_HARDWARE "Build the hardware suite" OFF)

function(weir_hardware_program name)
  add_executable(hw_${name} ${ARGN})
  weir_compile(hw_${name})
  target_link_libraries(hw_${name} PRIVATE ${WEIR_LIBRARIES} ${CMAKE_DL_LIBS})
endfunction()

function(weir_hardware_planted)
  set(planted ${PROJECT_SOURCE_DIR}/tests/hardware/sanitizer/planted.cu)
  find_program(WEIR_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT WEIR_NVCC)
    weir_left_out("tests/hardware/sanitizer" "nvcc was not found")
    return()
  endif()
  set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/hw_planted)
  add_custom_command(OUTPUT ${program} DEPENDS ${planted}
    COMMAND ${WEIR_NVCC} -O1 -lineinfo -Xcompiler -static-libgcc,-static-libstdc++
            -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80
            -gencode arch=compute_90,code=[sm_90,compute_90] -o ${program} ${planted})
  add_custom_target(hw_planted ALL DEPENDS ${program})
endfunction()

if(WEIR_HARDWARE AND TARGET weir_cuda)
  set(here ${PROJECT_SOURCE_DIR}/tests/hardware)
  foreach(name order capture threads bounds)
    weir_hardware_program(${name} ${here}/${name}.c ${here}/hw.c ${here}/hw_storm.c)
  endforeach()
  file(GLOB probe CONFIGURE_DEPENDS ${here}/probe*.c)
  weir_hardware_program(probe ${probe} ${here}/hw.c)
  file(GLOB suite ${PROJECT_SOURCE_DIR}/tests/conformance/*.c)
  list(FILTER suite EXCLUDE REGEX "/(devices|device_sim|device_host)\\.c$")
  weir_hardware_program(conformance ${suite} ${here}/devices.c
                        ${PROJECT_SOURCE_DIR}/tests/plain/plain.c)
  target_include_directories(hw_conformance BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/plain
                             ${PROJECT_SOURCE_DIR}/tests/conformance)
  if(CMAKE_C_COMPILER_ID MATCHES "Clang") # assertions without a text, as Criterion allows
    target_compile_options(hw_conformance PRIVATE -Wno-gnu-zero-variadic-macro-arguments)
  endif()
  weir_hardware_planted()
elseif(NOT WEIR_HARDWARE)
  weir_left_out("tests/hardware" "WEIR_HARDWARE is OFF")
else()
  weir_left_out("tests/hardware" "backends/cuda is left out")
endif()
