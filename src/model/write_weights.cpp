#include "model/write_weights.h"

#include <map>

#include "base/file.h"
#include "device/torch_headers.h"
#include "formats/tensor_files.h"
#include "model/round_weights.h"

namespace lmtrain {
namespace {

// Describes all tensors of the layout, without data.
std::vector<TensorToWrite> tensors_of(const ParameterLayout& layout, DType dtype) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterSpec& spec : layout.parameters())
    tensors.push_back({spec.name, dtype, spec.shape, nullptr});
  return tensors;
}

}  // namespace

uint64_t weight_bytes(const ParameterLayout& layout, DType dtype) {
  return static_cast<uint64_t>(layout.num_parameters()) * dtype_size(dtype);
}

WeightsWritten write_weights(const std::filesystem::path& folder, const Parameters& parameters,
                             DType dtype, uint64_t shard_bytes, const Poll& poll) {
  const at::Tensor master = parameters.master().cpu();
  std::map<std::string, const ParameterSpec*> spec_of;
  for (const ParameterSpec& spec : parameters.layout().parameters()) spec_of[spec.name] = &spec;
  TensorShards shards = divide_tensors(tensors_of(parameters.layout(), dtype), shard_bytes);
  for (TensorShard& shard : shards.files) {
    poll();
    std::vector<at::Tensor> values;
    for (TensorToWrite& tensor : shard.tensors) {
      const ParameterSpec& spec = *spec_of.at(tensor.name);
      values.push_back(
          rounded_weights(master.narrow(0, spec.offset, spec.numel()), dtype, tensor.name));
      tensor.data = values.back().const_data_ptr();
    }
    FileWriter writer(folder / shard.file);
    write_safetensors(writer, shard.tensors, {{"format", "pt"}});
    writer.finish();
  }
  if (!shards.index.empty()) write_file_synced(folder / kModelIndexFile, shards.index);
  return {shards.files.size(), weight_bytes(parameters.layout(), dtype)};
}

}  // namespace lmtrain
