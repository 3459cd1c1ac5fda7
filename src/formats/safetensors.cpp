#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/foreign_text.h"
#include "base/text.h"

namespace lmtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are used as they lie");

// PyTorch has no tensors of more dimensions; also bounds what a hostile header can make us
// allocate.
constexpr size_t kMostDimensions = 64;

struct DTypeInfo {
  std::string_view name;
  size_t size;
};
constexpr std::array<DTypeInfo, 13> kDTypes = {{{"BOOL", 1},
                                                {"U8", 1},
                                                {"I8", 1},
                                                {"I16", 2},
                                                {"U16", 2},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"I32", 4},
                                                {"U32", 4},
                                                {"F32", 4},
                                                {"F64", 8},
                                                {"I64", 8},
                                                {"U64", 8}}};

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

[[noreturn]] void fail_safetensors(const std::string& origin, const std::string& what) {
  throw Error(ErrorKind::kData, str(origin, ": ", what,
                                    "; the file is damaged, incomplete or no safetensors file: "
                                    "copy, download or convert it again"));
}

// Receives the header's JSON part by part and keeps only tensors that are sound in themselves, so
// that a hostile header fails at its first lie. No JSON value is ever built.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& origin, std::string_view data,
               std::map<std::string, TensorView>& tensors,
               std::map<std::string, std::string>& metadata)
      : origin_(origin), data_(data), tensors_(tensors), metadata_(metadata) {}

  bool start_object(size_t /*size*/) override {
    if (scope_ == Scope::kOutside) {
      scope_ = Scope::kTop;
    } else if (scope_ == Scope::kTop && name_ == kSafetensorsMetadataKey) {
      scope_ = Scope::kMetadata;
    } else if (scope_ == Scope::kTop) {
      scope_ = Scope::kTensor;
      field_ = Field::kNone;
      fields_seen_ = 0;
      shape_.clear();
      offsets_.clear();
    } else {
      misplaced("an object");
    }
    return true;
  }

  bool key(std::string& text) override {
    if (scope_ == Scope::kTop) {
      name_ = text;
      if (name_ == kSafetensorsMetadataKey) {
        if (std::exchange(metadata_seen_, true)) fail_here("stands twice");
      } else if (tensors_.contains(name_)) {
        fail_here("stands twice");
      }
    } else if (scope_ == Scope::kMetadata) {
      if (metadata_.contains(text)) fail_here(str("has the key ", quote(text), " twice"));
      metadata_key_ = text;
    } else {
      field_ = text == "dtype"          ? Field::kDType
               : text == "shape"        ? Field::kShape
               : text == "data_offsets" ? Field::kOffsets
                                        : Field::kNone;
      if (field_ == Field::kNone) fail_here(str("has the unknown key ", quote(text)));
      const unsigned bit = 1U << static_cast<unsigned>(field_);
      if ((fields_seen_ & bit) != 0) fail_here(str("has the key ", quote(text), " twice"));
      fields_seen_ |= bit;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (scope_ == Scope::kMetadata) {
      metadata_.emplace(metadata_key_, text);
    } else if (scope_ == Scope::kTensor && field_ == Field::kDType) {
      const std::optional<DType> dtype = dtype_from_name(text);
      if (!dtype) {
        throw Error(ErrorKind::kData,
                    str(origin_, ": tensor ", quote(name_), " is of type ", quote(text),
                        ", which lmtrain does not read; convert it to F32, BF16 or F16"));
      }
      dtype_ = *dtype;
    } else {
      misplaced("a string");
    }
    return true;
  }

  bool start_array(size_t /*size*/) override {
    if (scope_ == Scope::kTensor && field_ == Field::kShape) {
      scope_ = Scope::kShape;
    } else if (scope_ == Scope::kTensor && field_ == Field::kOffsets) {
      scope_ = Scope::kOffsets;
    } else {
      misplaced("an array");
    }
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (scope_ == Scope::kShape) {
      if (shape_.size() == kMostDimensions) {
        fail_here(str("has more than ", kMostDimensions, " dimensions"));
      }
      if (!std::in_range<int64_t>(value)) fail_here(str("has a dimension of ", value));
      shape_.push_back(static_cast<int64_t>(value));
    } else if (scope_ == Scope::kOffsets) {
      if (offsets_.size() == 2) fail_here("has more than two data_offsets");
      offsets_.push_back(value);
    } else {
      misplaced("a number");
    }
    return true;
  }

  bool end_array() override {
    scope_ = Scope::kTensor;
    return true;
  }

  bool end_object() override {
    if (scope_ == Scope::kTensor) add_tensor();
    scope_ = scope_ == Scope::kTop ? Scope::kOutside : Scope::kTop;
    return true;
  }

  bool null() override { misplaced("null"); }
  bool boolean(bool /*value*/) override { misplaced("a truth value"); }
  bool number_integer(int64_t /*value*/) override { misplaced("a negative number"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    misplaced("a number that is no 64-bit integer");
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { misplaced("binary data"); }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    // nlohmann counts from 1.
    fail_safetensors(origin_, str("the header is not JSON at byte ",
                                  kSafetensorsLengthBytes + std::max<size_t>(position, 1) - 1));
  }

 private:
  enum class Scope { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };
  enum class Field { kNone, kDType, kShape, kOffsets };
  static constexpr unsigned kAllFields = 0b1110;

  [[noreturn]] void fail_here(const std::string& what) const {
    const bool metadata = name_ == kSafetensorsMetadataKey;
    fail_safetensors(origin_, str(metadata ? "entry " : "tensor ", quote(name_), " ", what));
  }

  [[noreturn]] void misplaced(const char* what) const {
    if (scope_ == Scope::kOutside)
      fail_safetensors(origin_, str("the header is ", what, ", not an object"));
    fail_here(str("has ", what, " where it cannot be"));
  }

  void add_tensor() {
    if (fields_seen_ != kAllFields) fail_here("lacks one of dtype, shape, data_offsets");
    if (offsets_.size() != 2) fail_here("has fewer than two data_offsets");
    const uint64_t begin = offsets_[0];
    const uint64_t end = offsets_[1];
    if (begin > end || end > data_.size()) {
      fail_here(
          str("lies at bytes ", begin, " to ", end, " of the data, which has ", data_.size()));
    }
    if (end - begin != bytes_of_shape()) {
      fail_here(str("has ", end - begin, " bytes, but its shape needs ", bytes_of_shape()));
    }
    // Tensors that do not overlap cannot exceed the data; the first one too many ends the parse.
    if (end - begin > data_.size() - bytes_claimed_) fail_here("overlaps another tensor");
    bytes_claimed_ += end - begin;
    tensors_.emplace(name_, TensorView{dtype_, shape_, data_.substr(begin, end - begin)});
  }

  // Dimensions of 0 are left out of the overflow check's product, so that strides can be computed
  // for every shape accepted.
  uint64_t bytes_of_shape() const {
    auto product = static_cast<int64_t>(dtype_size(dtype_));
    bool empty = false;
    for (const int64_t size : shape_) {
      empty = empty || size == 0;
      if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product)) {
        fail_here("has a shape whose size does not fit in 63 bits");
      }
    }
    return empty ? 0 : static_cast<uint64_t>(product);
  }

  const std::string& origin_;
  std::string_view data_;
  std::map<std::string, TensorView>& tensors_;
  std::map<std::string, std::string>& metadata_;

  Scope scope_ = Scope::kOutside;
  std::string name_;  // of the tensor, or the key of the metadata
  bool metadata_seen_ = false;
  std::string metadata_key_;
  Field field_ = Field::kNone;
  unsigned fields_seen_ = 0;
  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_;
  std::vector<uint64_t> offsets_;
  uint64_t bytes_claimed_ = 0;
};

// In the order of their bytes each tensor begins where the one before ends, and the last one ends
// with the file.
void check_no_holes(const std::string& origin, std::string_view data,
                    const std::map<std::string, TensorView>& tensors) {
  using Entry = std::map<std::string, TensorView>::value_type;
  std::vector<const Entry*> in_order;
  in_order.reserve(tensors.size());
  for (const Entry& entry : tensors) in_order.push_back(&entry);
  const auto extent = [](const Entry* entry) {
    return std::pair(entry->second.bytes.data(), entry->second.bytes.size());
  };
  std::sort(in_order.begin(), in_order.end(),
            [&](const Entry* a, const Entry* b) { return extent(a) < extent(b); });
  const char* end = data.data();
  for (const Entry* entry : in_order) {
    const std::string_view bytes = entry->second.bytes;
    if (bytes.data() != end) {
      fail_safetensors(origin, str("tensor ", quote(entry->first), " begins at byte ",
                                   bytes.data() - data.data(), " of the data, not at ",
                                   end - data.data(), " where the one before ends"));
    }
    end += bytes.size();
  }
  const auto used = static_cast<uint64_t>(end - data.data());
  if (used != data.size()) {
    fail_safetensors(
        origin, str("the tensors end at byte ", used, " of the data, which has ", data.size()));
  }
}

}  // namespace

std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }
size_t dtype_size(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size; }

std::optional<uint64_t> safetensors_header_size(std::string_view head) {
  if (head.size() < kSafetensorsLengthBytes + 2 || head[kSafetensorsLengthBytes] != '{')
    return std::nullopt;
  return value_at<uint64_t>(head.data());
}

std::map<std::string, TensorView> parse_safetensors(std::string_view file,
                                                    const std::string& origin,
                                                    std::map<std::string, std::string>& metadata) {
  // These bytes would be a size that no header has.
  if (const std::string other = foreign_data(file.substr(0, kForeignHeadBytes));
      !other.empty() && (file.size() < kSafetensorsLengthBytes || file[7] != '\0'))
    throw Error(ErrorKind::kData, str(origin, ": is ", other));
  if (file.size() < kSafetensorsLengthBytes) {
    fail_safetensors(origin,
                     str("has ", file.size(), " bytes, fewer than the 8 of the header size"));
  }
  const auto header_size = value_at<uint64_t>(file.data());
  if (header_size > kSafetensorsLargestHeader) {
    fail_safetensors(origin, str("the header size at byte 0 is ", header_size,
                                 ", above the limit of ", kSafetensorsLargestHeader));
  }
  if (header_size > file.size() - kSafetensorsLengthBytes) {
    fail_safetensors(origin, str("the header of ", header_size, " bytes ends past the ",
                                 file.size(), " bytes of the file"));
  }
  const std::string_view header = file.substr(kSafetensorsLengthBytes, header_size);
  const std::string_view data = file.substr(kSafetensorsLengthBytes + header_size);
  // nlohmann skips a byte order mark and takes a NUL for the end of the text.
  const size_t first = header.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || header[first] != '{') {
    fail_safetensors(origin,
                     str("the header does not begin with \"{\" at byte ", kSafetensorsLengthBytes));
  }
  if (const size_t nul = header.find('\0'); nul != std::string_view::npos) {
    fail_safetensors(origin, str("the header has a zero at byte ", kSafetensorsLengthBytes + nul));
  }

  std::map<std::string, TensorView> tensors;
  metadata.clear();
  HeaderReader reader(origin, data, tensors, metadata);
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
  check_no_holes(origin, data, tensors);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), tensors_(parse_safetensors(file_.bytes(), shown(path), metadata_)) {}

const TensorView& SafetensorsFile::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(ErrorKind::kData, str(shown(path()), ": has no tensor ", quote(name),
                                      "; it belongs to another model or is incomplete"));
  }
  return found->second;
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw Error(ErrorKind::kInternal, str("writing ", shown(file), ": ", what));
}

std::string json_string(const fs::path& file, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(file, str(quote(text), " is not UTF-8"));
  }
}

size_t tensor_bytes(const fs::path& file, const TensorToWrite& tensor) {
  size_t bytes = dtype_size(tensor.dtype);
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) {
      fail(file, str("tensor ", quote(tensor.name), " has an impossible shape"));
    }
  }
  return bytes;
}

}  // namespace

SafetensorsLayout::SafetensorsLayout(std::vector<TensorToWrite> tensors,
                                     const std::map<std::string, std::string>& metadata,
                                     const fs::path& file)
    : file_(file), tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });

  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    pairs.reserve(metadata.size());
    for (const auto& [key, value] : metadata) {
      pairs.push_back(str(json_string(file, key), ":", json_string(file, value)));
    }
    entries.push_back(str("\"", kSafetensorsMetadataKey, "\":{", join(pairs, ","), "}"));
  }
  size_t begin = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorToWrite& tensor = tensors_[i];
    const size_t end = begin + tensor_bytes(file, tensor);
    std::vector<std::string> sizes;
    for (const int64_t size : tensor.shape) sizes.push_back(std::to_string(size));
    entries.push_back(str(json_string(file, tensor.name), R"(:{"dtype":")",
                          dtype_name(tensor.dtype), R"(","shape":[)", join(sizes, ","),
                          R"(],"data_offsets":[)", begin, ",", end, "]}"));
    const bool is_new = places_.emplace(tensor.name, std::pair(i, begin)).second;
    if (!is_new || tensor.name == kSafetensorsMetadataKey)
      fail(file, str("the name ", quote(tensor.name), " is taken twice"));
    begin = end;
  }

  header_ = str("{", join(entries, ","), "}");
  // Spaces up to a multiple of 8 align the data for those who map it.
  header_.append((8 - header_.size() % 8) % 8, ' ');
  if (header_.size() > kSafetensorsLargestHeader) fail(file, "the header exceeds 100 MB");
  header_size_ = header_.size();
  file_size_ = sizeof header_size_ + header_size_ + begin;
}

std::string_view SafetensorsLayout::length() const { return object_bytes(header_size_); }

uint64_t SafetensorsLayout::offset_of(const TensorToWrite& tensor) const {
  const auto found = places_.find(tensor.name);
  if (found != places_.end()) {
    const auto& [index, offset] = found->second;
    if (tensors_[index].dtype == tensor.dtype && tensors_[index].shape == tensor.shape)
      return sizeof header_size_ + header_size_ + offset;
  }
  fail(file_, str("there is no place for the tensor ", quote(tensor.name)));
}

uint64_t SafetensorsLayout::size_of(const TensorToWrite& tensor) {
  return tensor_bytes("a tensor", tensor);
}

void write_safetensors(FileWriter& writer, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const SafetensorsLayout layout(std::move(tensors), metadata, writer.path());
  writer.write(layout.length());
  writer.write(layout.header());
  for (const TensorToWrite& tensor : layout.tensors())
    writer.write(tensor.data, SafetensorsLayout::size_of(tensor));
}

}  // namespace lmtrain
