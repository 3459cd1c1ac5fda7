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

[[noreturn]] void fail(const FileWriter& writer, const std::string& what) {
  throw Error(ErrorKind::kInternal, str("writing ", writer.path().string(), ": ", what));
}

std::string json_string(const FileWriter& writer, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(writer, str(quote(text), " is not UTF-8"));
  }
}

size_t tensor_bytes(const FileWriter& writer, const TensorToWrite& tensor) {
  size_t bytes = dtype_size(tensor.dtype);
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) {
      fail(writer, str("tensor ", quote(tensor.name), " has an impossible shape"));
    }
  }
  return bytes;
}

}  // namespace

void write_safetensors(FileWriter& writer, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });

  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    pairs.reserve(metadata.size());
    for (const auto& [key, value] : metadata) {
      pairs.push_back(str(json_string(writer, key), ":", json_string(writer, value)));
    }
    entries.push_back(str("\"", kSafetensorsMetadataKey, "\":{", join(pairs, ","), "}"));
  }
  std::vector<std::string> names;
  size_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    const size_t end = begin + tensor_bytes(writer, tensor);
    std::vector<std::string> sizes;
    for (const int64_t size : tensor.shape) sizes.push_back(std::to_string(size));
    entries.push_back(str(json_string(writer, tensor.name), R"(:{"dtype":")",
                          dtype_name(tensor.dtype), R"(","shape":[)", join(sizes, ","),
                          R"(],"data_offsets":[)", begin, ",", end, "]}"));
    names.push_back(tensor.name);
    begin = end;
  }
  names.emplace_back(kSafetensorsMetadataKey);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    fail(writer, str("the name ", quote(*twice), " is taken twice"));
  }

  std::string header = str("{", join(entries, ","), "}");
  // Spaces up to a multiple of 8 align the data for those who map it.
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kSafetensorsLargestHeader) fail(writer, "the header exceeds 100 MB");
  const uint64_t header_size = header.size();
  writer.write(&header_size, sizeof header_size);
  writer.write(header);
  for (const TensorToWrite& tensor : tensors) {
    writer.write(tensor.data, tensor_bytes(writer, tensor));
  }
}

}  // namespace lmtrain
