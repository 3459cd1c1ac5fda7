#include "text/sample_shard.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "text/byte_stream.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMostOfShardIndex = uint64_t{1} << 28;

[[noreturn]] void fail_shard(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kData,
              str(shown(path), ": ", what, "; the file is damaged or cut short: get it anew"));
}

// --- the index ---------------------------------------------------------------------------------

[[noreturn]] void fail_index(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kData,
              str(shown(path), ": ", what, "; the index of the shards is damaged: get it anew"));
}

[[noreturn]] void fail_unread(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kConfig, str(shown(path), ": ", what));
}

// Returns the name of a file in the folder of the index or below it; throws for any other.
std::string file_in_folder(const fs::path& index, const json& name) {
  if (!name.is_string()) fail_index(index, "a shard without a file name");
  const fs::path path = name.get<std::string>();
  const bool leads_out =
      path.is_absolute() || path.empty() || std::find(path.begin(), path.end(), "..") != path.end();
  if (leads_out) fail_index(index, str("the file name ", quote(path.native()), " leads elsewhere"));
  return path.lexically_normal().native();
}

uint64_t count_at(const fs::path& index, const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned())
    fail_index(index, str("a shard without a count \"", key, "\""));
  return found->get<uint64_t>();
}

// Returns the name without the level: "zstd" of "zstd:7".
std::string base_name(const std::string& compression) {
  return compression.substr(0, compression.find(':'));
}

void require_read_compression(const fs::path& path, const std::string& compression) {
  const std::string name = base_name(compression);
  if (name.empty() || name == "zstd" || name == "gz" || name == "bz2") return;
  fail_unread(path,
              str("its shards are compressed by ", shown(name),
                  ", which is not read: write them with zstd, gz, bz2 or without compression"));
}

ShardIndex mds_index(const fs::path& path, const json& shards) {
  ShardIndex index;
  index.is_mds = true;
  for (const json& shard : shards) {
    if (!shard.is_object() || !shard.contains("format") || !shard["format"].is_string())
      fail_index(path, "a shard without a format");
    if (const auto format = shard["format"].get<std::string>(); format != "mds") {
      fail_unread(path, str("its shards are of the format \"", shown(format),
                            "\" of MosaicML's streaming, and \"mds\" is read; name JSON lines and "
                            "tables by a pattern, such as DIR/*.jsonl"));
    }
    const json compression = shard.value("compression", json());
    if (compression.is_string()) require_read_compression(path, compression.get<std::string>());
    const json raw = shard.value("raw_data", json());
    if (!raw.is_object()) fail_index(path, "a shard without its file (raw_data)");
    ShardIndex::Shard next{file_in_folder(path, raw.value("basename", json()))};
    count_at(path, raw, "bytes");  // an index without it is damaged
    next.samples = count_at(path, shard, "samples");
    if (const json zip = shard.value("zip_data", json()); zip.is_object())
      next.compressed_file = file_in_folder(path, zip.value("basename", json()));
    index.shards.push_back(std::move(next));
  }
  return index;
}

ShardIndex litdata_index(const fs::path& path, const json& chunks, const json& config) {
  ShardIndex index;
  if (!config.contains("data_format") || !config["data_format"].is_array())
    fail_index(path, "no list \"data_format\"");
  for (const json& format : config["data_format"]) {
    if (!format.is_string()) fail_index(path, "an entry of \"data_format\" that is no text");
    index.data_format.push_back(format.get<std::string>());
  }
  if (const json compression = config.value("compression", json()); compression.is_string())
    index.compression = base_name(compression.get<std::string>());
  if (const json level = config.value("compression_level", json());
      level.is_string() && level != "chunk")
    fail_unread(path,
                "its chunks are compressed in parts, and chunks compressed as a whole are read");
  index.is_encrypted = !config.value("encryption", json()).is_null();
  for (const json& chunk : chunks) {
    if (!chunk.is_object()) fail_index(path, "a chunk that is no object");
    ShardIndex::Shard next{file_in_folder(path, chunk.value("filename", json()))};
    count_at(path, chunk, "chunk_bytes");  // an index without it is damaged
    next.samples = count_at(path, chunk, "chunk_size");
    index.shards.push_back(std::move(next));
  }
  return index;
}

// --- numbers -----------------------------------------------------------------------------------

struct IntegerType {
  size_t bytes = 0;  // 0: no type of ids
  bool is_signed = false;
};

IntegerType integer_type(std::string_view name) {
  if (name == "uint8") return {1, false};
  if (name == "int8") return {1, true};
  if (name == "uint16") return {2, false};
  if (name == "int16") return {2, true};
  if (name == "uint32") return {4, false};
  if (name == "int32") return {4, true};
  if (name == "uint64") return {8, false};
  if (name == "int64") return {8, true};
  return {};
}

template <class Number>
void append_numbers(std::string_view bytes, std::vector<int64_t>& out) {
  const size_t begin = out.size();
  out.resize(begin + bytes.size() / sizeof(Number));
  for (size_t i = 0; i < bytes.size() / sizeof(Number); ++i)
    out[begin + i] = id_of(value_at<Number>(bytes.data() + i * sizeof(Number)));
}

// Requires a whole number of values.
void append_integers(std::string_view bytes, IntegerType type, std::vector<int64_t>& out) {
  switch (type.bytes) {
    case 1:
      return type.is_signed ? append_numbers<int8_t>(bytes, out)
                            : append_numbers<uint8_t>(bytes, out);
    case 2:
      return type.is_signed ? append_numbers<int16_t>(bytes, out)
                            : append_numbers<uint16_t>(bytes, out);
    case 4:
      return type.is_signed ? append_numbers<int32_t>(bytes, out)
                            : append_numbers<uint32_t>(bytes, out);
    default:
      return type.is_signed ? append_numbers<int64_t>(bytes, out)
                            : append_numbers<uint64_t>(bytes, out);
  }
}

// --- samples behind a table of offsets -----------------------------------------------------------

class SampleStream {
 public:
  // Reads the table of offsets, and, with `has_header`, what lies between it and the first sample.
  SampleStream(const fs::path& path, std::unique_ptr<ByteStream> bytes, bool has_header,
               uint64_t max_document)
      : path_(path), bytes_(std::move(bytes)), max_document_(max_document) {
    constexpr uint64_t kMostSamples = uint64_t{1} << 28;
    const uint32_t count = read_number("the number of its samples");
    const uint32_t first = read_number("its table of offsets");
    const uint64_t table = sizeof(uint32_t) * (uint64_t{count} + 2);
    if (count > kMostSamples || first < table || (!has_header && first != table))
      fail_shard(path_, str("its table of offsets says that the first of ", count,
                            " samples begins at byte ", first));
    offsets_.push_back(first);
    while (offsets_.size() <= count) {
      const uint32_t offset = read_number("its table of offsets");
      if (offset < offsets_.back()) {
        fail_shard(path_, str("its table of offsets says that sample ", offsets_.size() - 1,
                              " ends at byte ", offset, ", before it begins"));
      }
      offsets_.push_back(offset);
    }
    constexpr uint64_t kMostHeader = uint64_t{1} << 26;
    if (first - table > kMostHeader)
      fail_shard(path_, "the description of its columns is too long");
    read(header_, first - table, "the description of its columns");
  }

  const std::string& header() const { return header_; }
  size_t num_samples() const { return offsets_.size() - 1; }
  // Stores the bytes of the next sample; returns false after the last one, where the file must end.
  bool next(std::string_view& sample) {
    if (next_ == num_samples()) {
      char more = 0;
      if (!is_done_ && (begin_ < end_ || bytes_->read(&more, 1) > 0))
        fail_shard(path_, str("goes on behind the last of its ", num_samples(),
                              " samples, which ends at byte ", position_));
      is_done_ = true;
      return false;
    }
    const uint64_t size = offsets_[next_ + 1] - offsets_[next_];
    // A sample has other columns too, and ids of up to eight bytes.
    if (size / 16 > max_document_) {
      fail_large_document(str(shown(path_), ": row ", next_), "a sample", max_document_);
    }
    read(sample_, size, str("row ", next_));
    ++next_;
    sample = sample_;
    return true;
  }
  int64_t row() const { return static_cast<int64_t>(next_) - 1; }  // of the last sample given
  uint64_t bytes_read() const { return bytes_->file_offset(); }

 private:
  uint32_t read_number(const char* what) {
    read(sample_, sizeof(uint32_t), what);
    return value_at<uint32_t>(sample_.data());
  }
  // Never takes much more memory than the file has bytes.
  void read(std::string& out, uint64_t size, const std::string& what) {
    constexpr uint64_t kStep = uint64_t{1} << 22;
    out.clear();
    while (out.size() < size) {
      while (begin_ == end_) {
        begin_ = 0;
        end_ = bytes_->read(buffer_.data(), buffer_.size());
        if (end_ == 0) fail_shard(path_, str("ends at byte ", position_, ", in ", what));
      }
      const uint64_t part = std::min({size - out.size(), uint64_t{end_ - begin_}, kStep});
      out.append(buffer_, begin_, part);
      begin_ += part;
      position_ += part;
    }
  }

  fs::path path_;
  std::unique_ptr<ByteStream> bytes_;
  uint64_t max_document_;
  std::string buffer_ = std::string(size_t{1} << 18, '\0');
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t position_ = 0;  // of the uncompressed file
  std::vector<uint32_t> offsets_;
  std::string header_;
  std::string sample_;
  size_t next_ = 0;
  bool is_done_ = false;
};

// --- MDS ---------------------------------------------------------------------------------------

struct MdsColumn {
  std::string name;
  std::string encoding;
  std::optional<uint64_t> size{};  // in bytes, where each sample has the same
};

// Samples of an MDS shard, column by column.
class MdsSamples {
 public:
  MdsSamples(const fs::path& path, uint64_t max_document)
      : path_(path), stream_(path, open_bytes(path), true, max_document) {
    const json config = parse_strict_json(
        stream_.header(), {ErrorKind::kData, str(shown(path), ": the description of its columns"),
                           "the file is damaged, cut short or no MDS shard: get it anew"});
    const auto list = [&](const char* key) {
      json found = config.is_object() ? config.value(key, json()) : json();
      if (!found.is_array()) fail_shard(path_, str("no list \"", key, "\" in its description"));
      return found;
    };
    const json names = list("column_names");
    const json encodings = list("column_encodings");
    const json sizes = list("column_sizes");
    if (encodings.size() != names.size() || sizes.size() != names.size())
      fail_shard(path_, "the lists of its description have several lengths");
    for (size_t i = 0; i < names.size(); ++i) {
      const bool has_size = sizes[i].is_number_unsigned();
      if (!names[i].is_string() || !encodings[i].is_string() || (!has_size && !sizes[i].is_null()))
        fail_shard(path_, str("column ", i, " of its description makes no sense"));
      columns_.push_back({names[i].get<std::string>(), encodings[i].get<std::string>()});
      // The writer takes a size of 0 for none, as null.
      if (has_size && sizes[i].get<uint64_t>() > 0) columns_.back().size = sizes[i].get<uint64_t>();
    }
  }

  const std::vector<MdsColumn>& columns() const { return columns_; }
  std::optional<size_t> index_of(const std::string& name) const {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const MdsColumn& column) { return column.name == name; });
    if (found == columns_.end()) return std::nullopt;
    return static_cast<size_t>(found - columns_.begin());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const MdsColumn& column : columns_) names.push_back(column.name);
    return names;
  }

  bool next() {
    std::string_view sample;
    if (!stream_.next(sample)) return false;
    std::vector<uint64_t> sizes;
    size_t at = 0;
    for (const MdsColumn& column : columns_) {
      if (!column.size && sample.size() - at < sizeof(uint32_t)) fail("has no room for its sizes");
      sizes.push_back(column.size ? *column.size : value_at<uint32_t>(sample.data() + at));
      if (!column.size) at += sizeof(uint32_t);
    }
    values_.clear();
    for (const uint64_t size : sizes) {
      if (size > sample.size() - at) fail("is shorter than its columns");
      values_.push_back(sample.substr(at, size));
      at += size;
    }
    if (at != sample.size()) fail("is longer than its columns");
    return true;
  }
  // The bytes of a column of the sample that next() has read.
  std::string_view value(size_t column) const { return values_[column]; }
  int64_t row() const { return stream_.row(); }
  uint64_t bytes_read() const { return stream_.bytes_read(); }
  [[noreturn]] void fail(const std::string& what) const {
    fail_shard(path_, str("row ", row(), " ", what));
  }

 private:
  fs::path path_;
  SampleStream stream_;
  std::vector<MdsColumn> columns_;
  std::vector<std::string_view> values_;
};

class MdsTextReader : public DocumentReader {
 public:
  MdsTextReader(const fs::path& path, const std::string& column, uint64_t max_document)
      : samples_(path, max_document) {
    const std::optional<size_t> found = samples_.index_of(column);
    if (!found) fail_missing_column(path, column, samples_.names());
    column_ = *found;
    if (const std::string& encoding = samples_.columns()[column_].encoding; encoding != "str") {
      throw Error(ErrorKind::kData,
                  str(shown(path), ": column ", quote(column), " is ", quote(encoding),
                      " instead of text (str); name another in data.text_field"));
    }
  }
  bool next(Document& document) override {
    if (!samples_.next()) return false;
    document = {samples_.value(column_), samples_.row()};
    return true;
  }
  uint64_t bytes_read() const override { return samples_.bytes_read(); }

 private:
  MdsSamples samples_;
  size_t column_ = 0;
};

// How the ids of a column are encoded: "ndarray", "ndarray:TYPE", "ndarray:TYPE:SHAPE", "bytes".
struct IdEncoding {
  bool is_array = false;
  bool has_type = false;
  bool has_shape = false;
  IntegerType type{};
};

// Returns nothing for an encoding that holds no list of integers.
std::optional<IdEncoding> id_encoding(const std::string& encoding, uint32_t id_bytes) {
  if (encoding == "bytes") {
    return IdEncoding{.has_type = true,
                      .has_shape = true,
                      .type = id_bytes == 0 ? IntegerType{8, true} : IntegerType{id_bytes, false}};
  }
  constexpr std::string_view kArray = "ndarray";
  if (!encoding.starts_with(kArray)) return std::nullopt;
  IdEncoding result{.is_array = true};
  std::string_view rest = std::string_view(encoding).substr(kArray.size());
  if (rest.empty()) return result;
  if (rest.front() != ':') return std::nullopt;
  rest.remove_prefix(1);
  const size_t colon = rest.find(':');
  result.has_type = true;
  result.type = integer_type(rest.substr(0, colon));
  result.has_shape = colon != std::string_view::npos;
  if (result.type.bytes == 0) return std::nullopt;
  // One axis: a sample is a row.
  if (result.has_shape && rest.substr(colon).find(',') != std::string_view::npos)
    return std::nullopt;
  return result;
}

IdColumns mds_id_columns(const MdsSamples& samples, const std::string& text_field) {
  IdColumns columns = id_columns(samples.names(), text_field, [&](const std::string& name) {
    const std::optional<size_t> index = samples.index_of(name);
    return index && id_encoding(samples.columns()[*index].encoding, 0);
  });
  columns.has_text =
      std::any_of(samples.columns().begin(), samples.columns().end(), [&](const MdsColumn& column) {
        return column.name == text_field && column.encoding == "str";
      });
  return columns;
}

class MdsIdRows : public IdRows {
 public:
  MdsIdRows(const fs::path& path, const std::string& text_field, uint32_t id_bytes,
            uint64_t max_document)
      : samples_(path, max_document) {
    columns_ = mds_id_columns(samples_, text_field);
    if (columns_.ids.empty()) fail_no_ids(path, text_field, samples_.names());
    ids_ = column(columns_.ids, id_bytes);
    if (columns_.has_mask) mask_ = column(kMaskColumn, id_bytes);
    if (columns_.has_labels) labels_ = column(kLabelsColumn, id_bytes);
  }
  bool next(IdRow& row) override {
    if (!samples_.next()) return false;
    row.number = samples_.row();
    read(ids_, row.ids);
    if (columns_.has_mask) read(mask_, row.mask);
    if (columns_.has_labels) read(labels_, row.labels);
    return true;
  }
  uint64_t bytes_read() const override { return samples_.bytes_read(); }

 private:
  struct Column {
    size_t index = 0;
    IdEncoding encoding{};
  };
  Column column(const std::string& name, uint32_t id_bytes) const {
    const size_t index = *samples_.index_of(name);
    return {index, *id_encoding(samples_.columns()[index].encoding, id_bytes)};
  }
  // An array consists of its type and its axes, each unless the encoding says it, and of its
  // values.
  void read(const Column& column, IdCell& cell) const {
    cell.clear();
    std::string_view bytes = samples_.value(column.index);
    IntegerType type = column.encoding.type;
    const auto take = [&] {
      if (bytes.empty()) samples_.fail("has an array without its head");
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      return byte;
    };
    if (!column.encoding.has_type) {
      const unsigned char code = take();
      type = coded_type(code);
      if (type.bytes == 0) samples_.fail(str("has an array of type ", int{code}, ", no integers"));
    }
    std::optional<uint64_t> count;
    if (!column.encoding.has_shape) count = take_shape(take(), bytes);
    if (bytes.size() % type.bytes != 0 || (count && bytes.size() / type.bytes != *count)) {
      samples_.fail(str("has ", bytes.size(), " bytes of ids of ", type.bytes, " bytes each",
                        count ? str(", and should have ", *count, " ids") : std::string()));
    }
    append_integers(bytes, type, cell.values);
  }
  static IntegerType coded_type(unsigned char code) {
    const size_t bits = code & 0xF8U;  // 33: 32 bits, with a sign
    const bool is_width = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    if (!is_width || (code & 7U) > 1) return {};
    return {bits / 8, (code & 7U) == 1};
  }
  // Returns the number of values that the axes give. Refuses several axes, which are a batch of
  // rows.
  uint64_t take_shape(unsigned char head, std::string_view& bytes) const {
    const size_t num_axes = head >> 2U;
    const size_t width = size_t{1} << (head & 3U);
    if (num_axes != 1) samples_.fail(str("has an array of ", num_axes, " axes, and 1 is read"));
    if (bytes.size() < width) samples_.fail("has an array without its length");
    uint64_t count = 0;
    for (size_t i = width; i-- > 0;) count = count << 8U | static_cast<unsigned char>(bytes[i]);
    bytes.remove_prefix(width);
    return count;
  }

  MdsSamples samples_;
  Column ids_;
  Column mask_;
  Column labels_;
};

// --- litdata -----------------------------------------------------------------------------------

// Returns the type of "no_header_tensor:16" or "no_header_numpy:5", which litdata writes for its
// TokensLoader: the number is the place of the type in a list of litdata.
IntegerType litdata_type(const std::string& format) {
  const size_t colon = format.find(':');
  if (colon == std::string::npos) return {};
  const std::string_view kind = std::string_view(format).substr(0, colon);
  const std::string_view index = std::string_view(format).substr(colon + 1);
  constexpr std::pair<std::string_view, std::string_view> kTensor[] = {
      {"11", "uint8"}, {"12", "int8"},  {"13", "int16"}, {"14", "int16"}, {"15", "int32"},
      {"16", "int32"}, {"17", "int64"}, {"18", "int64"}, {"20", "uint16"}};
  constexpr std::pair<std::string_view, std::string_view> kNumpy[] = {
      {"0", "int8"},  {"1", "int16"},  {"2", "int32"},  {"3", "int64"},
      {"4", "uint8"}, {"5", "uint16"}, {"6", "uint32"}, {"7", "uint64"}};
  const auto named = [&](const auto& names) {
    for (const auto& [number, name] : names) {
      if (index == number) return integer_type(name);
    }
    return IntegerType{};
  };
  if (kind == "no_header_tensor") return named(kTensor);
  if (kind == "no_header_numpy") return named(kNumpy);
  return {};
}

class LitdataIdRows : public IdRows {
 public:
  LitdataIdRows(const fs::path& path, const LitdataChunk& chunk, uint64_t max_document)
      : path_(path),
        type_(litdata_type(chunk.data_format)),
        stream_(
            path,
            chunk.compression == "zstd" ? open_bytes(path, Compression::kZstd) : open_bytes(path),
            false, max_document) {
    columns_.ids = "ids";
    if (type_.bytes == 0) {
      throw Error(ErrorKind::kData,
                  str(shown(path), ": its items are ", quote(chunk.data_format),
                      ", and bare ids of integers are read, which litdata writes for its "
                      "TokensLoader (no_header_tensor, no_header_numpy)"));
    }
    if (stream_.num_samples() != chunk.shard.samples)
      fail_shard(path_, str("has ", stream_.num_samples(), " items, and index.json says ",
                            chunk.shard.samples));
  }
  bool next(IdRow& row) override {
    std::string_view item;
    if (!stream_.next(item)) return false;
    row.number = stream_.row();
    row.ids.clear();
    if (item.size() % type_.bytes != 0)
      fail_shard(path_, str("row ", row.number, " has ", item.size(), " bytes, no multiple of ",
                            type_.bytes));
    append_integers(item, type_, row.ids.values);
    return true;
  }
  uint64_t bytes_read() const override { return stream_.bytes_read(); }

 private:
  fs::path path_;
  IntegerType type_;
  SampleStream stream_;
};

}  // namespace

std::optional<ShardIndex> read_shard_index(const fs::path& path) {
  const std::string text = read_file(path, kMostOfShardIndex);
  const auto has = [&](std::string_view key) { return text.find(key) != std::string::npos; };
  // Any project may have an index.json. These keys are in no other.
  const bool may_be_mds = has("\"shards\"") && has("\"raw_data\"");
  const bool may_be_litdata = has("\"chunks\"") && has("\"chunk_bytes\"");
  if (!may_be_mds && !may_be_litdata) return std::nullopt;
  const json index = parse_strict_json(
      text, {ErrorKind::kData, shown(path), "the index of the shards is damaged: get it anew", 64});
  if (!index.is_object()) return std::nullopt;
  const json shards = index.value("shards", json());
  const json version = index.value("version", json());
  if (shards.is_array() && version.is_number_integer()) {
    if (version != 2) {
      fail_unread(path, str("is an index of MosaicML's streaming of version ", version.dump(),
                            ", and 2 is read"));
    }
    return mds_index(path, shards);
  }
  const json chunks = index.value("chunks", json());
  const json config = index.value("config", json());
  if (!chunks.is_array() || !config.is_object()) return std::nullopt;
  ShardIndex result = litdata_index(path, chunks, config);
  if (result.is_encrypted) fail_unread(path, "its chunks are encrypted, which is not read");
  if (!result.compression.empty() && result.compression != "zstd")
    fail_unread(path, str("its chunks are compressed by ", shown(result.compression),
                          ", and zstd is read"));
  return result;
}

std::optional<LitdataChunk> LitdataIndex::chunk(const fs::path& path) {
  if (const fs::path folder = path.parent_path(); folder != folder_ || !is_read_) {
    folder_ = folder;
    is_read_ = true;
    shards_.clear();
    const fs::path index_path = folder / kShardIndexName;
    const std::optional<ShardIndex> index =
        is_file(index_path) ? read_shard_index(index_path) : std::nullopt;
    if (!index || index->is_mds) return std::nullopt;
    data_format_ = join(index->data_format, ", ");
    compression_ = index->compression;
    for (const ShardIndex::Shard& shard : index->shards) shards_.emplace(shard.file, shard);
  }
  const auto found = shards_.find(path.filename().native());
  if (found == shards_.end()) return std::nullopt;
  return LitdataChunk{found->second, data_format_, compression_};
}

std::unique_ptr<DocumentReader> open_mds(const fs::path& path, const std::string& column,
                                         uint64_t max_document) {
  return std::make_unique<MdsTextReader>(path, column, max_document);
}

IdColumns find_mds_ids(const fs::path& path, const std::string& text_field) {
  return mds_id_columns(MdsSamples(path, UINT64_MAX), text_field);
}

std::unique_ptr<IdRows> open_mds_ids(const fs::path& path, const std::string& text_field,
                                     uint32_t id_bytes, uint64_t max_document) {
  return std::make_unique<MdsIdRows>(path, text_field, id_bytes, max_document);
}

std::unique_ptr<IdRows> open_litdata_ids(const fs::path& path, const LitdataChunk& chunk,
                                         uint64_t max_document) {
  return std::make_unique<LitdataIdRows>(path, chunk, max_document);
}

}  // namespace lmtrain
