# These files run before libtorch is initialised, so they include nothing of it.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/cli/standard_files.cpp ${CMAKE_CURRENT_SOURCE_DIR}/cli/unexpected_end.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
