// A checkpoint (docs/formats/checkpoint.md) is a folder that transformers opens as it is, and that
// holds all a resume needs.
//
// write_checkpoint() writes and syncs every file in checkpoints/.tmp-step_N (or .tmp-step_N-NAME,
// if several processes write the tensors; checkpoint/shared_save.h), the manifest last. It then
// renames the folder to checkpoints/step_N, or exchanges it with the one there (base/publish.h). A
// kill at any instant leaves either the whole new checkpoint or the former one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Holds the files of a checkpoint that are the same throughout a run.
struct CheckpointTexts {
  std::string hf_config;                 // config.json
  std::string generation_config;         // generation_config.json
  std::vector<TokenizerFile> tokenizer;  // the tokenizer's own files and tokenizer_config.json
};
// Returns the texts of a run. `config` is resolved.
CheckpointTexts checkpoint_texts(const Config& config, const Tokenizer& tokenizer);

// Holds the contents of a checkpoint, or the part that one of several processes writes, in host
// memory. With checkpoint.async it is a copy, and training may go on while a thread writes it.
// Otherwise masters and buffers may be the run's own tensors, which must not change before they are
// written.
struct CheckpointSnapshot {
  TrainingState state;
  std::vector<MasterRange> masters;
  std::vector<OptimizerBuffer> buffers;
};

// Describes model.safetensors or optimizer.safetensors, with all its tensors or some of them.
struct CheckpointFile {
  std::string name;
  std::map<std::string, std::string> metadata;
  std::vector<TensorToWrite> tensors;
};

// Calls f(file) for each of the two files, with the tensors that the snapshot has of it, which are
// valid during the call. In bf16 the rounded weights take memory meanwhile. Throws the errors of
// rounded_weights (model/round_weights.h) and of f.
void for_each_tensor_file(const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                          CheckpointDType dtype,
                          const std::function<void(const CheckpointFile& file)>& f);

// Describes both files with all their tensors, without data. `buffers` are of an optimizer that
// updates all tensors; only their names and shapes are read.
std::vector<CheckpointFile> describe_tensor_files(const ParameterLayout& layout,
                                                  const std::vector<OptimizerBuffer>& buffers,
                                                  CheckpointDType dtype);

// An upper bound, in bytes, on all files of a checkpoint except the two tensor files and the
// tokenizer's files.
inline constexpr uint64_t kSmallFilesOfCheckpoint = 256 << 10;

// Writes and publishes checkpoints/step_N, where N is the step of the snapshot; replaces a
// checkpoint that is there. Then calls remove_old_checkpoints (checkpoint/retention.h). Writes the
// weights in config.dtype, as model/round_weights.h rounds them. state.json gets the run id of
// run.identity(), not of the snapshot. Throws Error(kIo) and the errors of for_each_tensor_file();
// after an error all older checkpoints are there.
void write_checkpoint(const RunFolder& run, const CheckpointTexts& texts,
                      const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                      const CheckpointConfig& config);

// Writes the tensor files into the unfinished folder of a checkpoint, synced. Returns size and
// CRC-32C of each, by name.
using WriteTensorFiles =
    std::function<std::map<std::string, ManifestEntry>(const std::filesystem::path& folder)>;
// Does the same, but `write` writes the tensor files, of `tensor_bytes` bytes together, and all
// files are first written to the folder `unfinished`. Removes what that folder holds before. Throws
// the errors of `write` too; if writing fails, removes the folder.
void write_checkpoint(const RunFolder& run, const std::filesystem::path& unfinished,
                      const CheckpointTexts& texts, const TrainingState& state,
                      const CheckpointConfig& config, uint64_t tensor_bytes,
                      const WriteTensorFiles& write);

// Loads masters and working weights from a checkpoint whose files were verified, and returns its
// state. If its weights are in bf16, reads the fp32 masters from the optimizer's file. Throws:
//   Error(kCheckpoint)  state.json is malformed, or a master has another shape or dtype
//   Error(kData)        a weight has another shape or dtype, or a tensor is missing
TrainingState load_checkpoint(const std::filesystem::path& folder, Parameters& parameters);

// Returns the state of a checkpoint. Throws Error(kCheckpoint) when state.json is malformed.
TrainingState read_state(const std::filesystem::path& folder);

// Returns the stored values of an optimizer buffer, fp32 in host memory, by its name and shape.
// Throws Error(kCheckpoint) if the stored tensor has another shape or dtype, Error(kData) if there
// is none.
using ReadBuffer = std::function<at::Tensor(const OptimizerBuffer& buffer)>;
// Opens the optimizer's file of a checkpoint whose files were verified.
ReadBuffer optimizer_reader(const std::filesystem::path& folder);

// Compares the files of checkpoints/step_N with its manifest, by size and CRC, and the step in the
// manifest with the folder's name. With `skip_training_state` does not read state.json and
// optimizer.safetensors, which an evaluation does not need. Throws:
//   Error(kCheckpoint)  a file is wrong; the message names it
//   Error(kUsage)       there is no such folder
void verify_checkpoint(const RunFolder& run, int64_t step, bool skip_training_state);
// Throws Error(kCheckpoint) if the run id in the checkpoint's state differs from run.identity().
// Passes if either has no id.
void require_own_checkpoint(const RunFolder& run, int64_t step);

// Returns whether verify_checkpoint() threw `error` for damage, so that another checkpoint may be
// taken: Error(kCheckpoint), or Error(kUsage) for a listed checkpoint that is a link to nothing.
bool is_damage(const Error& error);
// Warns that a damaged checkpoint is passed over.
void warn_of_damage(const Error& error);

// Throws Error(kUsage) with the steps of the run's checkpoints if `step` is not among them.
void require_checkpoint_of_step(const RunFolder& run, int64_t step);

// Returns the step of the newest checkpoint that verify_checkpoint accepts; nothing if the run has
// no checkpoint. Warns of each damaged one, except the steps in `named`: the caller has already
// warned of these. If one is damaged and the process that trains the run has published a newer one
// meanwhile, begins again. Throws Error(kCheckpoint) if all are damaged, or the newest valid one
// belongs to another run.
std::optional<int64_t> newest_valid_checkpoint(const RunFolder& run, bool skip_training_state,
                                               const std::vector<int64_t>& named = {});

}  // namespace lmtrain
