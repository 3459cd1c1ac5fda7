// An open Parquet file, for the readers arrow_parquet*.cpp, which alone include this header. Small
// column chunks are read as a whole, others page by page; the checksums of pages are compared.
#pragma once

#include <parquet/api/reader.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "text/arrow_file.h"

namespace lmtrain {

// The constructor and column() throw Error and the exceptions of Parquet, as read_arrow() takes
// them.
struct OpenParquet {
  std::unique_ptr<parquet::ParquetFileReader> by_columns, by_pages;
  std::shared_ptr<parquet::FileMetaData> metadata;
  uint64_t size = 0;

  OpenParquet(const std::filesystem::path& path, TableMemory& memory) {
    constexpr int64_t kBufferBytes = int64_t{1} << 20;
    std::shared_ptr<arrow::io::RandomAccessFile> file = open_arrow_file(path);
    parquet::ReaderProperties properties(&memory);
    properties.set_page_checksum_verification(true);
    auto bytes = file->GetSize();
    size = bytes.ok() ? static_cast<uint64_t>(*bytes) : 0;
    by_columns = parquet::ParquetFileReader::Open(file, properties);
    metadata = by_columns->metadata();
    properties.enable_buffered_stream();
    properties.set_buffer_size(kBufferBytes);
    by_pages = parquet::ParquetFileReader::Open(file, properties, metadata);
  }
  std::shared_ptr<parquet::ColumnReader> column(int group, int column) const {
    constexpr int64_t kWholeColumn = int64_t{1} << 24;
    const int64_t bytes = metadata->RowGroup(group)->ColumnChunk(column)->total_compressed_size();
    return (bytes <= kWholeColumn ? by_columns : by_pages)->RowGroup(group)->Column(column);
  }
};

}  // namespace lmtrain
