// A checkpoint (docs/formats/checkpoint.md): a folder that transformers opens as it is, and that
// holds all a resume needs.
//
// Publishing: every file written, checked and synced in checkpoints/.tmp-step_N, the manifest last,
// the folder synced, then renamed to checkpoints/step_N. A kill at any instant leaves either the
// whole checkpoint or none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "corpus/tokenizer/tokenizer.h"
#include "model/parameters.h"
#include "optim/optimizer.h"

namespace lmtrain {

// The files of a checkpoint that are the same throughout a run.
struct CheckpointTexts {
  std::string hf_config;          // config.json
  std::string generation_config;  // generation_config.json
  std::string tokenizer_model;    // tokenizer.model
  std::string tokenizer_config;   // tokenizer_config.json
};
CheckpointTexts checkpoint_texts(const Config& config, const Tokenizer& tokenizer);

// A copy, in host memory, of all that a checkpoint at this moment consists of.
struct CheckpointSnapshot {
  TrainingState state;
  at::Tensor master;  // [flat_size] fp32
  std::vector<OptimizerBuffer> buffers;
};
CheckpointSnapshot take_snapshot(const TrainingState& state, const Parameters& parameters,
                                 const Optimizer& optimizer);

// Room for what a checkpoint holds beside weights, optimizer buffers and the tokenizer.
inline constexpr uint64_t kSmallFilesOfCheckpoint = 256 << 10;

// Writes and publishes checkpoints/step_N, then removes all but the newest `keep` and those whose
// state says that they are kept. Error(kIo) when the system refuses: no older checkpoint is touched
// then.
void write_checkpoint(const RunFolder& run, const CheckpointTexts& texts,
                      const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                      int64_t keep);

// Restores weights and optimizer buffers from a checkpoint whose files were verified, and returns
// its state. Error(kCheckpoint) naming the tensor that does not fit.
TrainingState load_checkpoint(const std::filesystem::path& folder, Parameters& parameters,
                              const Optimizer& optimizer);

// A folder with manifest.json, state.json or optimizer.safetensors.
bool is_checkpoint_folder(const std::filesystem::path& folder);

// Verifies checkpoints/step_N and compares the step of its manifest with the folder's name.
// Error(kCheckpoint) naming the file and what is wrong. `skip_training_state` as in
// verify_checkpoint_files.
void verify_checkpoint(const RunFolder& run, int64_t step, bool skip_training_state);
// Error(kCheckpoint), naming both runs, when the checkpoint is of another run than `run` says it
// is. One without an id, or a run without one, is of an earlier lmtrain and passes.
void require_own_checkpoint(const RunFolder& run, int64_t step);

// The newest checkpoint of a run whose files are all as its manifest says; each damaged one is
// named in a warning. Where the process that trains the run removes what is being read, the newest
// is looked for again. Nothing when the run has none; Error(kCheckpoint) when all are damaged, or
// the newest valid one is of another run.
std::optional<int64_t> newest_valid_checkpoint(const RunFolder& run, bool skip_training_state);

// Error(kData) when a verified checkpoint was trained on other data than `fingerprint` says.
void require_same_data(const std::filesystem::path& checkpoint, const std::string& fingerprint);

}  // namespace lmtrain
