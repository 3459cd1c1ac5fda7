#include "checkpoint/export_model.h"

#include "base/file.h"
#include "base/stop.h"
#include "base/unpublished.h"
#include "checkpoint/model_folder.h"
#include "device/torch_headers.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/torchscript.h"
#include "model/write_weights.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Makes sure first that the disk that holds `folder` has room for the weights.
Parameters load_parameters(const ModelLocation& location, DType dtype, const fs::path& folder) {
  ParameterLayout layout = located_layout(location);
  require_free_space(folder, weight_bytes(layout, dtype), "an export");
  Parameters parameters(std::move(layout), at::kFloat, at::kCPU);
  load_weights(TensorFiles(location.folder), parameters);
  return parameters;
}

}  // namespace

ModelExport export_hf(const ModelLocation& location, const fs::path& to, DType dtype,
                      uint64_t shard_bytes) {
  Unpublished folder(to, FileKind::kFolder);
  const Parameters parameters = load_parameters(location, dtype, folder.path().parent_path());
  lmtrain::create_directories(folder.path());
  write_files_beside_weights(location, folder.path(), dtype);
  note_missing_tokenizer(location, to);
  const WeightsWritten written =
      write_weights(folder.path(), parameters, dtype, shard_bytes, throw_if_stopped);
  throw_if_stopped();
  folder.publish();
  return {parameters.layout().num_parameters(), written.files, written.bytes};
}

ModelExport export_torchscript(const ModelLocation& location, const fs::path& to, DType dtype) {
  Unpublished file(to, FileKind::kFile);
  const Parameters parameters = load_parameters(location, dtype, file.path().parent_path());
  write_torchscript(file.path(), located_model_config(location), parameters,
                    located_max_length(location), dtype);
  throw_if_stopped();
  file.publish();
  const ParameterLayout& layout = parameters.layout();
  return {layout.num_parameters(), 1, weight_bytes(layout, dtype)};
}

}  // namespace lmtrain
