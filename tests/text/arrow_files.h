// Compressed and tabular files for tests, made with Arrow so that no test needs Python.
#pragma once

#include <arrow/api.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_stream.h"

namespace lmtrain::testing {

using Rows = std::vector<std::optional<std::string>>;  // none: null

// One gzip member, zstd frame or bzip2 stream.
std::string compressed(std::string_view bytes, Compression compression);

// A column of the type: string, large_string, string_view, binary, or dictionary of string.
std::shared_ptr<arrow::Array> text_array(const Rows& rows,
                                         const std::shared_ptr<arrow::DataType>& type);

// Columns "id" (int64), then `name`, then "other" (string).
std::shared_ptr<arrow::Table> table_of(
    const Rows& rows, const std::string& name = "text",
    const std::shared_ptr<arrow::DataType>& type = arrow::utf8());

struct ParquetOptions {
  int64_t rows_per_group = 64;
  int64_t page_bytes = 512;
  bool dictionary = true;
  bool checksums = true;
  arrow::Compression::type compression = arrow::Compression::SNAPPY;
};
std::string parquet_bytes(const arrow::Table& table, const ParquetOptions& options = {});
// `rows_per_batch` as in `datasets`, whose default is 1000.
std::string arrow_stream_bytes(
    const arrow::Table& table, int64_t rows_per_batch = 64,
    arrow::Compression::type compression = arrow::Compression::UNCOMPRESSED);
std::string arrow_file_bytes(const arrow::Table& table, int64_t rows_per_batch = 64);

}  // namespace lmtrain::testing
