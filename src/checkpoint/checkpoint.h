// A checkpoint (docs/formats/checkpoint.md) is a folder that transformers opens as it is, and that
// holds all a resume needs.
//
// It is published in steps: every file is written, checked and synced in checkpoints/.tmp-step_N
// (or .tmp-step_N-NAME, where several processes write the tensors; checkpoint/shared_save.h), the
// manifest last; the folder is synced and then renamed to checkpoints/step_N, or exchanged with the
// one that is there (base/publish.h). A kill at any instant leaves the whole new
// checkpoint, or what was there before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// The contents of the files of a checkpoint that are the same throughout a run.
struct CheckpointTexts {
  std::string hf_config;                 // config.json
  std::string generation_config;         // generation_config.json
  std::vector<TokenizerFile> tokenizer;  // the tokenizer's own files and tokenizer_config.json
};
// Returns them for a run. `config` is resolved.
CheckpointTexts checkpoint_texts(const Config& config, const Tokenizer& tokenizer);

// Everything that a checkpoint holds, or the tensors that one of several processes writes, in host
// memory. With checkpoint.async it is a copy, and training may go on while it is written. Without,
// masters and buffers may be the run's own (OptimizerShards::collect), which must not change before
// they are written.
struct CheckpointSnapshot {
  TrainingState state;
  std::vector<MasterRange> masters;
  std::vector<OptimizerBuffer> buffers;
};

// Describes one of the two files, with all its tensors or some of them.
struct CheckpointFile {
  std::string name;
  std::map<std::string, std::string> metadata;
  std::vector<TensorToWrite> tensors;
};

// Calls f(file) for each file, with the tensors that the snapshot has of it. They are valid during
// the call. In bf16 the weights take memory of their own meanwhile.
void for_each_tensor_file(const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                          CheckpointDType dtype,
                          const std::function<void(const CheckpointFile& file)>& f);

// Describes both files with all their tensors, without data. `buffers` belong to an optimizer of
// all tensors; only their names and shapes are read.
std::vector<CheckpointFile> describe_tensor_files(const ParameterLayout& layout,
                                                  const std::vector<OptimizerBuffer>& buffers,
                                                  CheckpointDType dtype);

// An upper bound, in bytes, on all files of a checkpoint but weights, optimizer buffers and
// the tokenizer's files.
inline constexpr uint64_t kSmallFilesOfCheckpoint = 256 << 10;

// Writes and publishes checkpoints/step_N, N being the step of the snapshot. A checkpoint that is
// there already is replaced. Then calls remove_old_checkpoints (checkpoint/retention.h). Weights
// are written in config.dtype, as model/round_weights.h rounds them. state.json gets the run id of
// run.identity(), not of the snapshot. Throws Error(kIo) when the system refuses; no older
// checkpoint has been removed unless the new one is published.
void write_checkpoint(const RunFolder& run, const CheckpointTexts& texts,
                      const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                      const CheckpointConfig& config);

// Writes the tensor files of a checkpoint into its unfinished folder, synced, and returns size and
// CRC-32C of each by its name.
using WriteTensorFiles =
    std::function<std::map<std::string, ManifestEntry>(const std::filesystem::path& folder)>;
// Does the same in the unfinished folder `unfinished`, with tensor files of `tensor_bytes` bytes
// that `write` writes; what is in that folder is removed first, and all of it where this throws.
void write_checkpoint(const RunFolder& run, const std::filesystem::path& unfinished,
                      const CheckpointTexts& texts, const TrainingState& state,
                      const CheckpointConfig& config, uint64_t tensor_bytes,
                      const WriteTensorFiles& write);

// Restores the masters from a checkpoint whose files were verified, and returns its state. Where
// its weights are in bf16, the masters are those beside the optimizer's state. Throws
// Error(kCheckpoint) when state.json is malformed; Error(kData) when a weight does not fit, or a
// tensor is missing.
TrainingState load_checkpoint(const std::filesystem::path& folder, Parameters& parameters);

// Returns the state of a checkpoint. Throws Error(kCheckpoint) when state.json is malformed.
TrainingState read_state(const std::filesystem::path& folder);

// Returns the stored values of an optimizer buffer, fp32 in host memory, by its name and shape.
// Throws Error(kCheckpoint) when the stored tensor has another shape or dtype; Error(kData) when
// there is none.
using ReadBuffer = std::function<at::Tensor(const OptimizerBuffer& buffer)>;
// Opens the optimizer's file of such a checkpoint.
ReadBuffer optimizer_reader(const std::filesystem::path& folder);

// Compares the files of checkpoints/step_N with its manifest, by size and CRC, and the step in the
// manifest with the folder's name. Throws Error(kCheckpoint) that names the file and what is wrong;
// Error(kUsage) when there is no such folder. With `skip_training_state` state.json and
// optimizer.safetensors are not read: evaluation needs neither.
void verify_checkpoint(const RunFolder& run, int64_t step, bool skip_training_state);
// Throws Error(kCheckpoint), naming both runs, when the run id in the checkpoint's state differs
// from run.identity(). It passes when either has no id.
void require_own_checkpoint(const RunFolder& run, int64_t step);

// Returns the step of the newest checkpoint that verify_checkpoint accepts, or nothing when the run
// has no checkpoint. Each damaged one is named in a warning, but for the steps in `named`. When one
// cannot be verified and the process that trains the run has published a newer one meanwhile, the
// search begins again. Throws Error(kCheckpoint) when all are damaged, or the newest valid one
// belongs to another run.
std::optional<int64_t> newest_valid_checkpoint(const RunFolder& run, bool skip_training_state,
                                               const std::vector<int64_t>& named = {});

}  // namespace lmtrain
