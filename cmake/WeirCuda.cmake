# SPDX-License-Identifier: MIT
# The CUDA backend needs the toolkit's headers only: the driver's library is opened at run time.

set(weir_cuda_why "")
find_path(WEIR_CUDA_INCLUDE cuda.h
          HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
if(WEIR_CUDA STREQUAL "OFF")
  set(weir_cuda_why "WEIR_CUDA is OFF")
elseif(NOT EXISTS ${PROJECT_SOURCE_DIR}/backends/cuda)
  set(weir_cuda_why "this tree has no backends/cuda")
elseif(NOT WEIR_CUDA_INCLUDE)
  set(weir_cuda_why "cuda.h was not found; set CUDA_HOME to the toolkit")
elseif(NOT TARGET weir_hosted)
  set(weir_cuda_why "it needs hosted")
endif()

if(NOT weir_cuda_why)
  weir_library(cuda backends/cuda core)
  if(TARGET weir_cuda)
    target_include_directories(weir_cuda SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
    target_link_libraries(weir_cuda PUBLIC weir_hosted ${CMAKE_DL_LIBS})
    target_compile_definitions(weir_cuda INTERFACE WEIR_HAS_CUDA=1)
  endif()
elseif(WEIR_CUDA STREQUAL "ON")
  message(FATAL_ERROR "Weir: WEIR_CUDA is ON, but ${weir_cuda_why}")
else()
  weir_left_out("backends/cuda" "${weir_cuda_why}")
endif()
