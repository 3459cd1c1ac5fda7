// A run configuration is read from strict JSON with // and /* */ comments, and from `--set
// key=value` overrides.
//
// All errors are collected and thrown together as one Error(kConfig): each names file:line, JSON
// pointer, the value, what is allowed and the nearest known key. It is Error(kUsage) when the only
// error is that the path in init_from does not exist. docs/config.md lists every key.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

struct JsonNode;  // config/json_reader.h

// With kRead the folder that `init_from` names is opened: for the model's defaults, and to refuse
// keys that contradict it. kSkip is for a run's own config.json, which holds every key and must not
// need the folder any more.
enum class InitFrom { kRead, kSkip };

// Returns the folder of the checkpoint to take when `init_from` names a run folder; throws Error
// where there is none. The config keeps the checkpoint's path. With an empty function a run folder
// is refused.
using CheckpointOfRun = std::function<std::filesystem::path(const std::filesystem::path& run)>;

// Parses, checks, and fills in defaults. `overrides` are "a.b.c=value" as typed after --set.
// `origin` is the file's name for messages; its stem is the default of `name`. Paths stay relative
// as they are given.
Config parse_config(std::string_view text, const std::string& origin,
                    const std::vector<std::string>& overrides, InitFrom init_from = InitFrom::kRead,
                    const CheckpointOfRun& checkpoint_of_run = {});
// Reads the file and parses it. With kRead `path` may also be a pipe. Throws Error(kUsage) for a
// path that does not exist or is a folder, Error(kData) for more than 16 MiB, Error(kConfig) for
// what looks like a text to train on, Error(kIo), what parse_config throws, and StopRequested
// (base/stop.h) for a signal while it waits for a pipe.
Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   InitFrom init_from = InitFrom::kRead,
                   const CheckpointOfRun& checkpoint_of_run = {});
// Makes every path in the config absolute, as seen from the current folder: the globs of data.train
// and data.eval, and every setting of kind kPath. Addresses with "://" stay. Throws Error(kConfig)
// when config.json cannot hold a path that comes out, since the current folder's name has what
// why_config_cannot_hold() tells.
void make_paths_absolute(Config& config);
// Returns why an absolute path cannot stand in a config.json, for messages: "is not UTF-8", or it
// has "${"; empty where it can.
std::string why_config_cannot_hold(const std::string& path);

// Returns the full configuration: every key, defaults too, except those that are accepted without
// effect. parse_config of its dump, with InitFrom::kSkip, gives the same Config back.
nlohmann::ordered_json config_to_json(const Config& config);

// Reads transformers' config.json of a Llama, Qwen3, Qwen2 or Mistral ("LlamaForCausalLM" and so
// on). A key of its class that would change what is computed, and that lmtrain has
// no setting for, must have the value with which lmtrain computes; all other keys without a setting
// are ignored. A missing key has the default of transformers; vocab_size is always set. Throws
// Error(kConfig) for what is wrong, and where model_type is missing. `origin` names the file.
ModelConfig parse_hf_model_config(std::string_view text, const std::string& origin);
// Returns the keys of config.json about positions in both forms: rope_theta and rope_scaling, which
// version 4 of transformers reads, and rope_parameters, which version 5 reads.
nlohmann::ordered_json hf_rope_json(const ModelConfig& model);
// Returns config.json for a checkpoint, which opens in transformers 4 and 5. An id below 0 becomes
// null. `dtype` is the dtype of the weights beside it.
nlohmann::ordered_json hf_model_config_json(const ModelConfig& model, int64_t vocab_size,
                                            int64_t max_position_embeddings, int64_t bos_id,
                                            int64_t eos_id, int64_t pad_id,
                                            CheckpointDType dtype = CheckpointDType::kFp32);

// Returns the text of `config show`: the whole configuration as JSON. A comment after a value says
// where it was given ("run.json:12", "--set optimizer.lr=3e-4") or that it comes from init_from,
// and why a key has no effect, such as one of another optimizer. Values without a comment are
// defaults.
std::string show_config(const Config& config);

// An override, --set key=value, changes the tree of JSON before the settings are read, so that it
// is checked like the file. apply_overrides() applies "key=value" texts to `root` in order. The key
// is dotted; a part of it that follows a list is the index of an item that the list has. Objects
// that are missing are made, and `root` becomes an object if it is null. The value is JSON; text
// that is no JSON becomes a string, but text that begins with {, [ or " must be JSON. A length of
// the run other than null (train.steps, train.tokens, train.epochs) removes the other two. Adds a
// line to `problems` for each override that cannot be applied, and leaves it out. `where` of the
// new values is "--set key=value".
void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems);

}  // namespace lmtrain
