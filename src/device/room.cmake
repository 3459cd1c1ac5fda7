set(recorder ${CMAKE_CURRENT_SOURCE_DIR}/device/cuda_graph_recorder.cpp)
if(LMTRAIN_HAS_CUDA)
  # libtorch's header of its allocator on a GPU wants the headers of the toolkit.
  set_source_files_properties(${recorder} PROPERTIES COMPILE_OPTIONS "-isystem;${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}")
else()
  set_source_files_properties(${recorder} PROPERTIES HEADER_FILE_ONLY ON)
endif()
