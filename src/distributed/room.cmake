# libtorch's Gloo backend is compiled in; its header wants Gloo's own, which the wheel does not have.
find_path(GLOO_INCLUDE gloo/context.h)
if(NOT GLOO_INCLUDE)
  message(FATAL_ERROR "lmtrain needs the headers of Gloo (Debian: libgloo-dev). Run scripts/setup.sh, or pass -DGLOO_INCLUDE=<the "
                      "folder that holds gloo/context.h>.")
endif()
# The headers of c10d show Gloo's backend only where this is defined.
target_compile_definitions(lmtrain_distributed PRIVATE USE_C10D_GLOO)
target_include_directories(lmtrain_distributed SYSTEM PRIVATE ${GLOO_INCLUDE})

# nccl.cpp is a library of its own, which the program loads where several processes have GPUs. It is built where there are nvcc and
# NCCL's header and library, from the wheel beside libtorch or from the toolkit.
get_target_property(sources lmtrain_distributed SOURCES)
list(FILTER sources EXCLUDE REGEX "/nccl\\.cpp$")
set_target_properties(lmtrain_distributed PROPERTIES SOURCES "${sources}")
if(NOT LMTRAIN_HAS_CUDA)
  return()
endif()
find_path(NCCL_INCLUDE nccl.h HINTS ${TORCH_ROOT}/../nvidia/nccl/include ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
find_library(NCCL_LIBRARY NAMES libnccl.so.2 HINTS ${TORCH_ROOT}/../nvidia/nccl/lib ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
if(NOT NCCL_INCLUDE OR NOT NCCL_LIBRARY)
  message(STATUS "NCCL: none, there is no nccl.h or no libnccl.so.2: several processes on GPUs exchange through host memory")
  return()
endif()
message(STATUS "NCCL: ${NCCL_LIBRARY}")
add_library(lmtrain_nccl SHARED ${CMAKE_CURRENT_SOURCE_DIR}/distributed/nccl.cpp)
target_link_libraries(lmtrain_nccl PRIVATE lmtrain_options ${NCCL_LIBRARY} cudart)
target_include_directories(lmtrain_nccl SYSTEM PRIVATE ${NCCL_INCLUDE} ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
set_target_properties(lmtrain_nccl PROPERTIES
  OUTPUT_NAME lmtrain_nccl
  LIBRARY_OUTPUT_DIRECTORY ${LMTRAIN_LIBRARIES}
  CXX_VISIBILITY_PRESET hidden
  INSTALL_RPATH $ORIGIN)
install(TARGETS lmtrain_nccl LIBRARY DESTINATION ${LMTRAIN_INSTALLED_LIBRARIES} COMPONENT program)
add_dependencies(lmtrain_distributed lmtrain_nccl)
