#include "text/arrow_files.h"

#include <arrow/io/compressed.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <lzma.h>
#include <parquet/arrow/writer.h>

#include <map>
#include <stdexcept>

namespace lmtrain::testing {
namespace {

void require(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}
template <class Value>
Value value_of(arrow::Result<Value> result) {
  require(result.status());
  return *std::move(result);
}

std::string written(
    const std::function<void(const std::shared_ptr<arrow::io::OutputStream>&)>& write) {
  auto out = value_of(arrow::io::BufferOutputStream::Create());
  write(out);
  return value_of(out->Finish())->ToString();
}

template <class Builder>
std::shared_ptr<arrow::Array> build(Builder& builder, const Rows& rows) {
  for (const auto& row : rows) require(row ? builder.Append(*row) : builder.AppendNull());
  return value_of(builder.Finish());
}

}  // namespace

std::string compressed(std::string_view bytes, Compression compression) {
  if (compression == Compression::kXz) {
    std::string packed(lzma_stream_buffer_bound(bytes.size()), '\0');
    size_t size = 0;
    const lzma_ret result =
        lzma_easy_buffer_encode(LZMA_PRESET_DEFAULT, LZMA_CHECK_CRC32, nullptr,
                                reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                                reinterpret_cast<uint8_t*>(packed.data()), &size, packed.size());
    if (result != LZMA_OK) throw std::runtime_error("lzma_easy_buffer_encode");
    packed.resize(size);
    return packed;
  }
  const std::map<Compression, arrow::Compression::type> types = {
      {Compression::kGzip, arrow::Compression::GZIP},
      {Compression::kZstd, arrow::Compression::ZSTD},
      {Compression::kBzip2, arrow::Compression::BZ2}};
  const auto codec = value_of(arrow::util::Codec::Create(types.at(compression)));
  return written([&](const std::shared_ptr<arrow::io::OutputStream>& out) {
    const auto stream = value_of(arrow::io::CompressedOutputStream::Make(codec.get(), out));
    require(stream->Write(bytes));
    require(stream->Close());
  });
}

std::shared_ptr<arrow::Array> text_array(const Rows& rows,
                                         const std::shared_ptr<arrow::DataType>& type) {
  std::unique_ptr<arrow::ArrayBuilder> builder;
  require(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder));
  switch (type->id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return build(dynamic_cast<arrow::BinaryBuilder&>(*builder), rows);
    case arrow::Type::LARGE_STRING:
      return build(dynamic_cast<arrow::LargeBinaryBuilder&>(*builder), rows);
    case arrow::Type::STRING_VIEW:
      return build(dynamic_cast<arrow::BinaryViewBuilder&>(*builder), rows);
    default: {
      arrow::StringDictionaryBuilder dictionary;
      return build(dictionary, rows);
    }
  }
}

std::shared_ptr<arrow::Table> table_of(const Rows& rows, const std::string& name,
                                       const std::shared_ptr<arrow::DataType>& type) {
  arrow::Int64Builder ids;
  arrow::StringBuilder others;
  for (size_t i = 0; i < rows.size(); ++i) {
    require(ids.Append(static_cast<int64_t>(i)));
    require(others.Append("not this"));
  }
  const std::vector<std::shared_ptr<arrow::Array>> columns = {
      value_of(ids.Finish()), text_array(rows, type), value_of(others.Finish())};
  return arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field(name, columns[1]->type()),
                     arrow::field("other", arrow::utf8())}),
      columns);
}

std::string parquet_bytes(const arrow::Table& table, const ParquetOptions& options) {
  parquet::WriterProperties::Builder properties;
  properties.compression(options.compression)
      ->data_pagesize(options.page_bytes)
      ->write_batch_size(16);
  if (!options.dictionary) properties.disable_dictionary();
  if (options.checksums) properties.enable_page_checksum();
  return written([&](const std::shared_ptr<arrow::io::OutputStream>& out) {
    require(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out,
                                       options.rows_per_group, properties.build()));
  });
}

std::string arrow_stream_bytes(const arrow::Table& table, int64_t rows_per_batch,
                               arrow::Compression::type compression) {
  return written([&](const std::shared_ptr<arrow::io::OutputStream>& out) {
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    if (compression != arrow::Compression::UNCOMPRESSED)
      options.codec = value_of(arrow::util::Codec::Create(compression));
    const auto writer = value_of(arrow::ipc::MakeStreamWriter(out, table.schema(), options));
    require(writer->WriteTable(table, rows_per_batch));
    require(writer->Close());
  });
}

std::string arrow_file_bytes(const arrow::Table& table, int64_t rows_per_batch) {
  return written([&](const std::shared_ptr<arrow::io::OutputStream>& out) {
    const auto writer = value_of(arrow::ipc::MakeFileWriter(out, table.schema()));
    require(writer->WriteTable(table, rows_per_batch));
    require(writer->Close());
  });
}

}  // namespace lmtrain::testing
