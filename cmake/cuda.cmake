# The GPU kernels of src/ops: finds nvcc, and makes the target `cudart`. Sets LMTRAIN_HAS_CUDA.
#
# Only the compiler and the headers of a CUDA 13 toolkit are needed. The runtime library is the one libtorch itself loads,
# from the small wheel beside it, so that a program with kernels starts on machines without a GPU or driver.
set(LMTRAIN_HAS_CUDA FALSE)
if(LMTRAIN_CUDA MATCHES "^(on|ON|1|TRUE)$")
  set(cuda_required TRUE)
elseif(LMTRAIN_CUDA STREQUAL "auto")
  set(cuda_required FALSE)
elseif(LMTRAIN_CUDA MATCHES "^(off|OFF|0|FALSE)$")
  message(STATUS "GPU kernels: off")
  return()
else()
  message(FATAL_ERROR "LMTRAIN_CUDA is '${LMTRAIN_CUDA}'; use auto, on or off.")
endif()

# Why there are no GPU kernels: fatal where they were asked for.
macro(lmtrain_no_cuda why)
  if(cuda_required)
    message(FATAL_ERROR "LMTRAIN_CUDA=on, but ${why}.")
  endif()
  message(STATUS "GPU kernels: none, ${why}")
  return()
endmacro()

# As scripts/lib.sh looks for it.
if(NOT "$ENV{CUDACXX}" STREQUAL "")
  set(LMTRAIN_NVCC "$ENV{CUDACXX}" CACHE FILEPATH "The CUDA compiler")
endif()
find_program(LMTRAIN_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin)
if(NOT LMTRAIN_NVCC)
  lmtrain_no_cuda("there is no nvcc: install the CUDA 13.0 toolkit, or set CUDACXX")
endif()
execute_process(COMMAND ${LMTRAIN_NVCC} --version OUTPUT_VARIABLE nvcc_version)
if(NOT nvcc_version MATCHES "release 13\\.")
  lmtrain_no_cuda("${LMTRAIN_NVCC} is not of CUDA 13, which libtorch was built with")
endif()

set(CMAKE_CUDA_COMPILER ${LMTRAIN_NVCC})
set(CMAKE_CUDA_ARCHITECTURES ${LMTRAIN_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # `cudart` below
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)
# What nvcc has had since CUDA 12, and CMake does not know before 3.26.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_library(CUDART_LIBRARY NAMES libcudart.so.13 HINTS ${LMTRAIN_LIBRARIES}
             PATHS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} NO_DEFAULT_PATH)
if(NOT CUDART_LIBRARY)
  lmtrain_no_cuda("there is no libcudart.so.13 beside libtorch or in the toolkit")
endif()
add_library(cudart INTERFACE)
target_link_libraries(cudart INTERFACE ${CUDART_LIBRARY})
set(LMTRAIN_HAS_CUDA TRUE)
message(STATUS "GPU kernels: ${LMTRAIN_NVCC}, for ${LMTRAIN_CUDA_ARCHITECTURES}; runtime ${CUDART_LIBRARY}")
