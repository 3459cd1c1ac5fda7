#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "formats/quote.h"
#include "formats/safetensors.h"

namespace lmtrain {
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

std::string_view SafetensorsLayout::length() const {
  return {reinterpret_cast<const char*>(&header_size_), sizeof header_size_};
}

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
