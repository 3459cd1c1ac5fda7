#include "config/init_from.h"

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/text.h"

namespace lmtrain {
namespace fs = std::filesystem;

namespace {

// Says what a folder without a tokenizer that is read has instead, and what to do.
std::string why_no_tokenizer(const fs::path& folder) {
  const std::string found = is_there(folder / "vocab.json")
                                ? "vocab.json, which is not read: AutoTokenizer of transformers "
                                  "saves a tokenizer.json in its place"
                                : "no tokenizer";
  return "has no tokenizer.model and no tokenizer.json of its weights (it has " + found +
         "); a new tokenizer would give other ids, which mean nothing to these weights; give "
         "tokenizer.model the path of theirs, or set tokenizer.allow_mismatch to true to train a "
         "new one all the same";
}

void check_tokenizer(const Config& config, const InitFromFolder& folder, SettingReader& reader) {
  if (config.tokenizer.model || config.tokenizer.allow_mismatch) return;
  if (reader.bad("tokenizer.model") || reader.bad("tokenizer.allow_mismatch")) return;
  reader.mark_bad("tokenizer.model");
  if (folder.tokenizer_model) {
    reader.problem(config.origins.origin("tokenizer"), "/tokenizer/model",
                   "null trains a new tokenizer, whose ids mean nothing to the weights of "
                   "init_from; leave the key out to take " +
                       *folder.tokenizer_model + ", or set tokenizer.allow_mismatch to true");
    return;
  }
  reader.problem(config.origins.origin("init_from"), "/init_from",
                 "\"" + folder.folder + "\" " + why_no_tokenizer(folder.folder));
}

// "; runs in it: a, b" for a folder that holds runs; empty where it holds none.
std::string runs_in(const fs::path& folder) {
  constexpr size_t kMostShown = 5;
  if (!is_folder(folder)) return "";
  std::vector<std::string> runs;
  for (const std::string& name : list_folder(folder)) {
    if (is_folder(folder / name / "checkpoints")) runs.push_back((folder / name).string());
  }
  if (runs.size() > kMostShown) {
    runs.resize(kMostShown);
    runs.emplace_back("...");
  }
  return runs.empty() ? "" : "; runs in it: " + join(runs, ", ");
}

}  // namespace

std::optional<fs::path> tokenizer_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    if (is_there(folder / name)) return folder / name;
  }
  return std::nullopt;
}

InitFromFolder open_init_from(const JsonNode& root, const CheckpointOfRun& checkpoint_of_run) {
  InitFromFolder result;
  const JsonNode* node = root.find("init_from");
  if (node == nullptr || !node->is(JsonNode::Type::kString)) return result;
  std::string ignored;
  const std::optional<std::string> path = expand_variables(node->text, &ignored);
  if (!path || path->empty()) return result;

  const auto fail = [&](const std::string& what) {
    result.problems.push_back(node->where + ": /init_from: " + quote_json(*node) + " " + what);
  };
  fs::path folder = *path;
  if (!is_there(folder)) {
    result.is_missing = true;
    fail("does not exist; give a Hugging Face Llama folder or a checkpoint");
    return result;
  }
  if (is_folder(folder / "checkpoints")) {
    if (!checkpoint_of_run) {
      fail("is a run; give one of the checkpoints in " + (folder / "checkpoints").string());
      return result;
    }
    folder = checkpoint_of_run(folder);
  }
  result.folder = folder.string();
  if (!is_file(folder / "config.json")) {
    fail("has no config.json; give a Hugging Face Llama folder or a checkpoint" + runs_in(folder));
    return result;
  }
  result.config_path = (folder / "config.json").string();
  try {
    result.model = parse_hf_model_config(read_file(result.config_path), result.config_path);
  } catch (const Error& error) {
    result.problems.emplace_back(error.what());
  }
  if (const auto tokenizer = tokenizer_in(folder)) result.tokenizer_model = tokenizer->string();
  return result;
}

void check_init_from(const Config& config, const InitFromFolder& folder, SettingReader& reader) {
  ModelConfig given = config.model;
  ModelConfig theirs = *folder.model;
  // Both spelled out, so that null and the width it stands for are equal.
  given.head_dim = given.resolved_head_dim();
  theirs.head_dim = theirs.resolved_head_dim();
  // No parts of a saved model.
  theirs.activation_checkpointing = given.activation_checkpointing;
  theirs.initializer = given.initializer;
  theirs.dropout = given.dropout;
  // In a Qwen's file the number is there also where it has no effect.
  if (theirs.model_type != ModelArchitecture::kMistral)
    theirs.sliding_window = given.sliding_window;
  const SettingTable given_table = model_settings(given, "model.");
  const SettingTable their_table = model_settings(theirs, "model.");
  for (const Setting& setting : given_table.settings()) {
    // null leaves no origin, and means another model for these.
    const bool says_null =
        setting.key == "model.rope_scaling" || setting.key == "model.sliding_window";
    if ((!config.origins.given(setting.key) && !says_null) || reader.bad(setting.key)) continue;
    const std::string their_value = value_text(*their_table.find(setting.key));
    if (value_text(setting) == their_value) continue;
    reader.problem(config.origins.origin(setting.key), pointer_of(setting.key),
                   value_text(setting) + " contradicts " + their_value + " in " +
                       folder.config_path + " (init_from); leave the key out");
  }
  check_tokenizer(config, folder, reader);
}

bool mentions_tokenizer_model(const JsonNode& root) {
  const JsonNode* tokenizer = root.find("tokenizer");
  return tokenizer != nullptr && tokenizer->find("model") != nullptr;
}

}  // namespace lmtrain
