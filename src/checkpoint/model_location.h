// The locations that a user may point eval and generate at: a run folder, a checkpoint, or a HF
// Llama folder.
#pragma once

#include <exception>
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

// Whether the checkpoint of a run was removed since it was located: the process that trains the run
// keeps only the newest ones. Says so in a note.
bool was_removed(const ModelLocation& location);
// Returns work(locate_model(path)). Where that fails since the checkpoint was removed meanwhile,
// the newest then is taken.
template <class Work>
auto with_located_model(const std::filesystem::path& path, const Work& work) {
  for (;;) {
    const ModelLocation location = locate_model(path);
    try {
      return work(location);
    } catch (const std::exception&) {
      if (!was_removed(location)) throw;
    }
  }
}

// The model of a location: its config.json.
ModelConfig located_model_config(const ModelLocation& location);
// max_position_embeddings of its config.json, 2048 when absent (transformers' default).
int64_t located_max_length(const ModelLocation& location);

}  // namespace lmtrain
