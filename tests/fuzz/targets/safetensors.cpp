// A safetensors file. What is accepted keeps the rules of docs/formats/safetensors.md, which are
// looked at here once more, and written again it reads the same.
#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {
namespace {

using Tensors = std::map<std::string, TensorView>;

void check_views(std::string_view file, const Tensors& tensors) {
  std::vector<std::string_view> parts;
  uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) {
    uint64_t bytes = dtype_size(tensor.dtype);
    for (const int64_t size : tensor.shape) {
      require(size >= 0, "a size is negative");
      bytes *= static_cast<uint64_t>(size);
    }
    require(bytes == tensor.bytes.size(), "shape and bytes of a tensor differ");
    require(tensor.bytes.data() >= file.data() &&
                tensor.bytes.data() + bytes <= file.data() + file.size(),
            "a tensor lies outside the file");
    total += bytes;
    if (bytes > 0) parts.push_back(tensor.bytes);
  }
  std::sort(parts.begin(), parts.end(),
            [](std::string_view a, std::string_view b) { return a.data() < b.data(); });
  for (size_t i = 1; i < parts.size(); ++i)
    require(parts[i - 1].data() + parts[i - 1].size() == parts[i].data(), "a hole or an overlap");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  require(sizeof header + header + total == file.size(), "bytes of no tensor");
}

}  // namespace

LMTRAIN_FUZZ_TARGET(safetensors) {
  Tensors tensors;
  std::map<std::string, std::string> metadata;
  const auto read = [&] { tensors = parse_safetensors(input, "x.safetensors", metadata); };
  if (!accepts(read)) return;
  check_views(input, tensors);

  std::vector<TensorToWrite> to_write;
  for (const auto& [name, tensor] : tensors)
    to_write.push_back({name, tensor.dtype, tensor.shape, tensor.bytes.data()});
  const std::filesystem::path path = scratch_folder() / "again.safetensors";
  FileWriter writer(path);
  write_safetensors(writer, to_write, metadata);
  writer.finish();
  const SafetensorsFile again(path);
  require(again.metadata() == metadata && again.tensors().size() == tensors.size(),
          "a file that is written reads as another");
  for (const auto& [name, tensor] : tensors) {
    const TensorView& other = again.at(name);
    require(
        other.dtype == tensor.dtype && other.shape == tensor.shape && other.bytes == tensor.bytes,
        "a tensor that is written reads as another");
  }
}

}  // namespace lmtrain::fuzzing
