# Parquet's headers declare a FileReader and a FileWriter as we do, in their own namespace; clang-tidy asks which one is meant.
set_source_files_properties(
  ${CMAKE_CURRENT_SOURCE_DIR}/text/arrow_parquet.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/text/arrow_parquet_ids.cpp
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
