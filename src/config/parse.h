// The run configuration as text: strict JSON with // and /* */ comments, `--set key=value`
// overrides.
//
// All errors are collected and thrown together as one Error(kConfig): each names file:line, JSON
// pointer, the value, what is allowed and the nearest known key. docs/config.md lists every key.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Whether the folder that `init_from` names is opened: for the model's defaults, and to refuse keys
// that contradict it. kSkip is for a run's own config.json, which holds every key and must not need
// the folder any more.
enum class InitFrom { kRead, kSkip };

// Gives the checkpoint that `init_from` means where it names a run folder; throws Error where there
// is none. The config keeps the checkpoint's path. An empty function: a run is refused.
using CheckpointOfRun = std::function<std::filesystem::path(const std::filesystem::path& run)>;

// `overrides` are "a.b.c=value" as typed after --set. `origin` is the file's name for messages; its
// stem is the default of `name`.
Config parse_config(std::string_view text, const std::string& origin,
                    const std::vector<std::string>& overrides, InitFrom init_from = InitFrom::kRead,
                    const CheckpointOfRun& checkpoint_of_run = {});
// Reads the file first; a path that does not exist is Error(kUsage).
Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   InitFrom init_from = InitFrom::kRead,
                   const CheckpointOfRun& checkpoint_of_run = {});
// Makes every path in the config absolute, as seen from the current folder: the globs of data.train
// and data.eval, and every setting of kind kPath.
void make_paths_absolute(Config& config);

// The full configuration, every key present; parse_config of its dump gives the same Config back.
nlohmann::ordered_json config_to_json(const Config& config);

// Reads transformers' config.json of a Llama (a "LlamaForCausalLM" folder): every LlamaConfig key
// is known; one without effect here must have the value lmtrain computes. Error(kConfig) otherwise.
// `origin` names the file.
ModelConfig parse_hf_model_config(std::string_view text, const std::string& origin);
// config.json for a checkpoint: opens in transformers 4 and 5.
nlohmann::ordered_json hf_model_config_json(const ModelConfig& model, int64_t vocab_size,
                                            int64_t max_position_embeddings, int64_t bos_id,
                                            int64_t eos_id, int64_t pad_id);

// `config show`: the resolved configuration; marks keys that belong to another variant and are
// unused.
std::string show_config(const Config& config);

}  // namespace lmtrain
