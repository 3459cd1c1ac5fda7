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

// Error(kUsage) when the path does not exist or is no model, Error(kCheckpoint) when the checkpoint
// is damaged.
ModelLocation locate_model(const std::filesystem::path& path);

// The model of a location: its config.json.
ModelConfig located_model_config(const ModelLocation& location);
// max_position_embeddings of its config.json, 2048 when absent (transformers' default).
int64_t located_max_length(const ModelLocation& location);

}  // namespace lmtrain
