// What a user may point eval and generate at: a run folder, a checkpoint, or a HF Llama
// folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// transformers' default, for a config.json without the key.
inline constexpr int64_t kLlamaDefaultVocabSize = 32000;

struct ModelLocation {
  std::filesystem::path folder;              // the model: config.json, model.safetensors
  std::optional<std::filesystem::path> run;  // the run it belongs to
  bool is_checkpoint = false;                // verified
};

// A folder with manifest.json, state.json or optimizer.safetensors.
bool is_checkpoint_folder(const std::filesystem::path& folder);

// The newest checkpoint of a run whose files are all as its manifest says; each damaged one is
// named in a warning. Nothing when the run has none; Error(kCheckpoint) when all are damaged.
// `skip_training_state` as in verify_checkpoint_files.
std::optional<int64_t> newest_valid_checkpoint(const RunFolder& run, bool skip_training_state);

// Error(kData) when a verified checkpoint was trained on other data than `fingerprint` says.
void require_same_data(const std::filesystem::path& checkpoint, const std::string& fingerprint);

// Error(kUsage) when the path does not exist or is no model, Error(kCheckpoint) when the checkpoint
// is damaged.
ModelLocation locate_model(const std::filesystem::path& path);

// The model of a location: its config.json.
ModelConfig located_model_config(const ModelLocation& location);
// max_position_embeddings of its config.json, 2048 when absent (transformers' default).
int64_t located_max_length(const ModelLocation& location);

}  // namespace lmtrain
