# SPDX-License-Identifier: MIT
# The CUDA backend needs neither the toolkit nor the driver to build: it declares what it calls
# itself and opens the driver's library at run time. What needs the toolkit is told below.

set(weir_cuda_why "")
if(WEIR_CUDA STREQUAL "OFF")
  set(weir_cuda_why "WEIR_CUDA is OFF")
elseif(NOT TARGET weir_hosted)
  set(weir_cuda_why "it needs hosted")
elseif(NOT UNIX OR APPLE)
  set(weir_cuda_why "CUDA is for Linux here")
endif()

if(NOT weir_cuda_why)
  weir_library(cuda backends/cuda core)
  target_link_libraries(weir_cuda PUBLIC weir_hosted Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_definitions(weir_cuda INTERFACE WEIR_HAS_CUDA=1)
elseif(WEIR_CUDA STREQUAL "ON")
  message(FATAL_ERROR "Weir: WEIR_CUDA is ON, but ${weir_cuda_why}")
else()
  weir_left_out("backends/cuda" "${weir_cuda_why}")
endif()

# The toolkit's header: what driver.h declares is checked against it, where it is there.
find_path(WEIR_CUDA_INCLUDE cuda.h
          HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
if(NOT WEIR_CUDA_INCLUDE)
  weir_left_out("the check of driver.h against cuda.h" "no CUDA toolkit; set CUDA_HOME")
endif()
