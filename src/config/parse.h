// A run configuration is read from strict JSON with // and /* */ comments, and from `--set
// key=value` overrides.
//
// All errors are collected and thrown together as one Error(kConfig): each names file:line, JSON
// pointer, the value, what is allowed and the nearest known key. It is Error(kUsage) when the only
// error is that the path in init_from does not exist. docs/config.md lists every key.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

struct JsonNode;  // config/json_reader.h

// Says who wrote the config. kPerson: the folder that `init_from` names gives the model's defaults,
// and a key that contradicts it is an error. The recipe may choose settings (config/recipe.h).
// kRun: a run's own config.json holds every key, and needs neither the folder nor the recipe.
// kRank: rank 0 sends it, perhaps before all is chosen, and has checked it; check_config() is not
// called.
enum class ConfigAuthor { kPerson, kRun, kRank };

// Chooses the checkpoint when `init_from` names a run folder: returns its folder, which the config
// keeps, or throws Error where there is none. With an empty function a run folder is a problem.
using CheckpointOfRun = std::function<std::filesystem::path(const std::filesystem::path& run)>;

// Parses, checks, and fills in defaults. `overrides` are "a.b.c=value" as typed after --set.
// `origin` is the file's name for messages; its stem is the default of `name`. Relative paths stay
// relative.
Config parse_config(std::string_view text, const std::string& origin,
                    const std::vector<std::string>& overrides,
                    ConfigAuthor author = ConfigAuthor::kPerson,
                    const CheckpointOfRun& checkpoint_of_run = {});
// Reads the file and parses it. With kPerson `path` may also be a pipe. Throws the errors of
// parse_config(), Error(kIo), and:
//   Error(kUsage)   the path does not exist, or is a folder
//   Error(kData)    the file has more than 16 MiB
//   Error(kConfig)  the file looks like a text to train on
//   StopRequested   a signal came while it waited for a pipe (base/stop.h)
Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   ConfigAuthor author = ConfigAuthor::kPerson,
                   const CheckpointOfRun& checkpoint_of_run = {});
// Makes every path in the config absolute, as seen from the current folder: data.train, data.eval,
// and every setting of kind kPath. Addresses with "://" stay. Throws Error(kConfig) when
// why_config_cannot_hold() refuses an absolute path.
void make_paths_absolute(Config& config);
// Returns why an absolute path cannot stand in a config.json, as the end of a sentence: it is not
// UTF-8, or has "${". Returns "" where it can.
std::string why_config_cannot_hold(const std::string& path);

// Returns the full configuration: every key that has an effect, defaults too. parse_config() of its
// dump, with ConfigAuthor::kRun, gives an equal Config.
nlohmann::ordered_json config_to_json(const Config& config);

// Reads transformers' config.json of a Llama, Qwen3, Qwen2 or Mistral ("LlamaForCausalLM" and so
// on). Some keys change what the model computes, and lmtrain has no setting for them: each must
// have the value that lmtrain computes with. All other keys without a setting are ignored. A
// missing key gets the default of transformers; vocab_size is always set. Throws Error(kData) where
// the text is no JSON, Error(kConfig) for bad values and a missing model_type. `origin` names the
// file.
ModelConfig parse_hf_model_config(std::string_view text, const std::string& origin);
// Returns the keys of config.json about positions in both forms: rope_theta and rope_scaling, which
// version 4 of transformers reads, and rope_parameters, which version 5 reads.
nlohmann::ordered_json hf_rope_json(const ModelConfig& model);
// Returns config.json for a checkpoint, which transformers 4 and 5 open. An id below 0 becomes
// null. `dtype` is the dtype of the weights beside it.
nlohmann::ordered_json hf_model_config_json(const ModelConfig& model, int64_t vocab_size,
                                            int64_t max_position_embeddings, int64_t bos_id,
                                            int64_t eos_id, int64_t pad_id,
                                            CheckpointDType dtype = CheckpointDType::kFp32);

// Returns the text of `config show`: the whole configuration as JSON. A comment after a value says
// where it was given ("run.json:12", "--set optimizer.lr=3e-4"), why the recipe chose it, or that
// it comes from init_from; and why a key has no effect. Values without a comment are defaults.
// `here` has more to say of a key: what its `auto` is on this machine.
std::string show_config(const Config& config, const std::map<std::string, std::string>& here = {});

// An override, --set key=value, changes the tree of JSON before the settings are read, so that it
// is checked like the file. apply_overrides() applies "key=value" texts to `root` in order. The key
// is dotted; after the name of a list comes the index of an item that is there. Missing objects are
// made; a null, `root` too, becomes an object. The value is JSON. Text that is no JSON becomes a
// string, unless it begins with {, [ or ". A length of the run that is not null (train.steps,
// train.tokens, train.epochs, train.time) removes the other three; two different lengths are a
// problem. Adds a line to `problems` for each override that cannot be applied, and leaves it out.
// `where` of the new values is "--set key=value".
void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems);
// Returns `overrides` with a text for each setting that an object of a section names, in order:
// train={"steps":5,"max_time":"1h"} becomes train.steps=5 and train.max_time="1h". Leaves out the
// keys of the object that have no effect. Every other override stays as it is, a wrong one too.
std::vector<std::string> overrides_by_setting(const std::vector<std::string>& overrides);

}  // namespace lmtrain
