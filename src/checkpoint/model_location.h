// A user may point eval, generate, export and average at a run folder, a checkpoint, or a HF Llama
// folder.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// transformers takes this size for a config.json without vocab_size.
inline constexpr int64_t kLlamaDefaultVocabSize = 32000;
// A row of a model has at most so many tokens.
inline constexpr int64_t kLongestRows = int64_t{1} << 30;

struct ModelLocation {
  std::filesystem::path folder;              // the model: config.json, model.safetensors
  std::optional<std::filesystem::path> run;  // the run it belongs to
  std::optional<int64_t> step{};             // of a checkpoint
};

// Says which checkpoint of a run folder is meant: without `last` and `step` the best one.
struct ModelRequest {
  // The command that asks, which takes --last and --step N, for messages; empty: what asks takes a
  // path alone.
  std::string command{};
  bool last = false;              // the newest valid one
  std::optional<int64_t> step{};  // the one of this step
};

// Finds the model at `path`. A run folder gives the checkpoint that `request` means. The best
// checkpoint is the valid one with the lowest held-out loss at its own step, and the earlier of two
// equal ones. A warning names each damaged one that would be better. Without an evaluation after
// step 0 the newest valid one is the best. A note in the log names the step that is taken, and how
// to take another. A checkpoint is verified except for state.json, which has the losses, and
// optimizer.safetensors. In a HF folder only config.json is looked for. Throws:
//   Error(kUsage)       the path does not exist, or holds no model; the message names runs in it
//   Error(kUsage)       the run has no checkpoint of the step
//   Error(kUsage)       `request` chooses, and the path is no run folder
//   Error(kCheckpoint)  the checkpoint is damaged, or all checkpoints of the run are
ModelLocation locate_model(const std::filesystem::path& path, const ModelRequest& request = {});

// Returns whether the checkpoint of a run was removed since it was located: the process that trains
// the run keeps only the newest and the best. If so, a note in the log says it.
bool was_removed(const ModelLocation& location);
// Returns work(locate_model(path, request)). When `work` throws and was_removed() is true, the
// model is located again and `work` is called again, so it must be repeatable.
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
// Returns max_position_embeddings, in tokens, from the location's config.json; when the key is
// absent 2048, or 32768 for a Qwen, or 131072 for a Mistral (the defaults of transformers). For a
// Mistral with a sliding_window it is at most that, since attention covers whole rows. Throws
// Error(kConfig) when it is no integer from 1 to 2^30.
int64_t located_max_length(const ModelLocation& location);

}  // namespace lmtrain
