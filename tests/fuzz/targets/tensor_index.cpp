// model.safetensors.index.json, beside two shards that exist.
#include "formats/tensor_files.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {
namespace {

std::string shard_with(const std::string& name) {
  std::string header = R"({")" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + "\1";
}

}  // namespace

LMTRAIN_FUZZ_TARGET(tensor_index) {
  static const bool has_shards = [] {
    write_scratch("model-00001-of-00002.safetensors", shard_with("a"));
    write_scratch("model-00002-of-00002.safetensors", shard_with("b"));
    return true;
  }();
  require(has_shards, "the shards are there");
  write_scratch(kModelIndexFile, input);
  const auto read = [] {
    const TensorFiles files(scratch_folder());
    for (const auto& [name, tensor] : files.tensors())
      require(tensor.bytes == "\1", "a tensor of no shard");
  };
  accepts(read);
}

}  // namespace lmtrain::fuzzing
