// Finds the model that a user gives to eval, generate, export or average: a run folder, a
// checkpoint, or a HF folder.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// The vocab_size of a config.json without the key, as transformers has it.
inline constexpr int64_t kLlamaDefaultVocabSize = 32000;
// The limit on max_position_embeddings, in tokens.
inline constexpr int64_t kLongestRows = int64_t{1} << 30;

struct ModelLocation {
  std::filesystem::path folder;              // of the model: config.json, model.safetensors
  std::optional<std::filesystem::path> run;  // the folder of the model's run, if it has one
  std::optional<int64_t> step{};             // if it is a checkpoint
};

// Says which checkpoint of a run folder to take: without `last` and `step` the best one.
struct ModelRequest {
  // The command, for messages, if it has the options --last and --step N; else empty.
  std::string command{};
  bool last = false;              // take the newest valid checkpoint
  std::optional<int64_t> step{};  // take the checkpoint of this step
};

// Finds the model at `path`. In a run folder it takes the checkpoint of `request`. The best
// checkpoint is the valid one with the lowest held-out loss at its own step; of equal losses the
// earlier step wins. Without an evaluation after step 0 it is the newest valid one. A warning names
// each damaged checkpoint that would be better. A note names the step, and how to take another.
// Verifies a checkpoint, but for state.json and optimizer.safetensors; in a HF folder only looks
// for config.json. Throws the errors of read_run_config (checkpoint/run_config.h), and:
//   Error(kUsage)       the path does not exist, is no folder, or holds no model; the message
//                       names runs in it
//   Error(kUsage)       the run has no checkpoint of the step
//   Error(kUsage)       `request` chooses, and the path is no run folder
//   Error(kCheckpoint)  the checkpoint is damaged, or all checkpoints of the run are
ModelLocation locate_model(const std::filesystem::path& path, const ModelRequest& request = {});

// Returns whether the checkpoint of a run was removed since locate_model() found it, by the process
// that trains the run. If so, logs a note.
bool was_removed(const ModelLocation& location);
// Returns work(locate_model(path, request)). If `work` throws and was_removed(), locates the model
// and calls `work` again, so `work` must be repeatable.
template <class Work>
auto with_located_model(const std::filesystem::path& path, const Work& work,
                        const ModelRequest& request = {}) {
  for (;;) {
    const ModelLocation location = locate_model(path, request);
    try {
      return work(location);
    } catch (const std::exception&) {
      if (!was_removed(location)) throw;
    }
  }
}

// Reads the architecture from the location's config.json. Throws Error(kConfig) when lmtrain has no
// such model.
ModelConfig located_model_config(const ModelLocation& location);
// Returns max_position_embeddings, in tokens, from the location's config.json. If the key is
// absent, it is 2048, for a Qwen 32768, for a Mistral 131072 (the defaults of transformers). For a
// Mistral it is at most sliding_window (absent: 4096; null: no limit), since attention covers whole
// rows. Throws Error(kConfig) if it is no integer from 1 to 2^30.
int64_t located_max_length(const ModelLocation& location);

}  // namespace lmtrain
