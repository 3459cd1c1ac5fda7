#include "checkpoint/changed_settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

// Returns whether a setting that a run may change affects the losses of trials.
bool moves_losses(const std::string& key) {
  return shapes_updates(key) || key == "eval.tokens" || key.starts_with("guard.") ||
         (key.starts_with("train.") && key != "train.max_time");
}

// Throws Error(kConfig) if `after` gives back to the recipe a setting that has a value in `before`.
void refuse_unchosen(const Config& before, const Config& after) {
  for (const char* key : {"optimizer.lr", "optimizer.weight_decay", "optimizer.type"}) {
    if (!before.origins.given(key) || after.origins.given(key)) continue;
    throw Error(
        ErrorKind::kConfig,
        str(key, " \"auto\" is chosen when a run begins, and this run has begun; give a value"));
  }
}

bool run_length_is_same(const TrainConfig& a, const TrainConfig& b) {
  return a.steps == b.steps && a.tokens == b.tokens && a.epochs == b.epochs;
}

// Returns whether `checkpoint` is a checkpoint of the run `run`: init_from may name the run, which
// may have newer checkpoints since.
bool is_checkpoint_of(const std::optional<std::string>& checkpoint,
                      const std::optional<std::string>& run) {
  namespace fs = std::filesystem;
  if (!checkpoint || !run) return false;
  return fs::path(*checkpoint).parent_path() == fs::path(*run) / "checkpoints";
}

}  // namespace

bool shapes_updates(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  return section == "optimizer" || section == "lr_schedule" || section == "clip" ||
         section == "loss" || section == "precision";
}

std::vector<SettingChange> changed_settings(const Config& before, const Config& after) {
  Config old_config = before;  // a table binds to what it could change
  Config new_config = after;
  const SettingTable old_settings = config_settings(old_config);
  const SettingTable settings = config_settings(new_config);
  std::vector<SettingChange> changes;
  for (const Setting& setting : settings.settings()) {
    SettingChange change{setting.key, setting_value(*old_settings.find(setting.key)),
                         setting_value(setting), why_unused(setting, settings)};
    if (change.is != change.was) changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<SettingChange> overlooked_settings(const Config& run, const Config& given) {
  std::vector<SettingChange> overlooked = changed_settings(run, given);
  Config defaults;
  const SettingTable table = config_settings(defaults);
  std::erase_if(overlooked, [&](const SettingChange& change) {
    // init_from has served its purpose, and its run may have a newer checkpoint since.
    const bool is_past =
        change.key == "name" || change.key == "run_dir" || change.key == "init_from";
    // "cuda" became the GPU that it stood for.
    const bool is_resolved = change.key == "device" && change.is == "cuda" &&
                             change.was.get<std::string>().starts_with("cuda:");
    // Resolving replaced these by tokens and a shape.
    const bool is_chosen = change.key == "train.time" || change.key == "model.size" ||
                           (change.key == "train.tokens" && given.train.time);
    return is_past || is_resolved || is_chosen || !change.unused.empty() ||
           change.is == setting_value(*table.find(change.key));
  });
  return overlooked;
}

Json changes_json(const std::vector<SettingChange>& changes) {
  Json list = Json::array();
  for (const SettingChange& change : changes)
    list.push_back({{"key", change.key}, {"was", change.was}, {"is", change.is}});
  return list;
}

std::vector<std::string> changed_for_good(const Config& before, const Config& after) {
  std::vector<std::string> changed;
  const auto compare = [&](const char* key, const auto& old_value, const auto& new_value) {
    if (!(old_value == new_value)) changed.emplace_back(key);
  };
  DataConfig data = after.data;
  data.cache_dir = before.data.cache_dir;
  data.max_document = before.data.max_document;
  data.on_bad_line = before.data.on_bad_line;  // other documents give another fingerprint
  data.token_dtype = before.data.token_dtype;
  compare("seed", before.seed, after.seed);
  compare("init_from", before.init_from, after.init_from);
  compare("tokenizer", before.tokenizer, after.tokenizer);
  compare("data", before.data, data);
  compare("sequence", before.sequence, after.sequence);
  compare("model", before.model, after.model);
  compare("batch.tokens", before.batch.tokens, after.batch.tokens);
  compare("optimizer.type", before.optimizer.type, after.optimizer.type);
  if (before.optimizer.type == OptimizerType::kSoap) {  // which sides have a preconditioner
    compare("optimizer.max_precond_dim", before.optimizer.max_precond_dim,
            after.optimizer.max_precond_dim);
  }
  if (before.optimizer.type == OptimizerType::kMuon) {  // which matrices have a second moment
    compare("optimizer.normuon", before.optimizer.normuon, after.optimizer.normuon);
  }
  compare("restart.seeds", before.restart.seeds, after.restart.seeds);
  compare("restart.tokens", before.restart.tokens, after.restart.tokens);
  compare("restart.vary", before.restart.vary, after.restart.vary);
  return changed;
}

Config changed_config(const RunFolder& run, const Config& before,
                      const std::vector<std::string>& overrides) {
  Config config = read_run_config(run, overrides_by_setting(overrides));
  refuse_unchosen(before, config);
  if (run_length_is_same(before.train, config.train)) {
    // The length that the run has anyway, given again, is no change, and has its history.
    config.train.planned_tokens = before.train.planned_tokens;
    config.train.replanned_at = before.train.replanned_at;
  }
  make_paths_absolute(config);
  if (config.run_dir != before.run_dir) {
    throw Error(ErrorKind::kConfig,
                "run_dir cannot change on resume; move the folder and resume it there, or begin a "
                "branch in another one: lmtrain resume RUN --run-dir NEW");
  }
  if (is_checkpoint_of(before.init_from, config.init_from)) config.init_from = before.init_from;
  const std::vector<std::string> changed = changed_for_good(before, config);
  if (!changed.empty()) {
    const auto has = [&](const char* key) {
      return std::find(changed.begin(), changed.end(), key) != changed.end();
    };
    const bool fits_weights = !has("model") && !has("tokenizer");
    throw Error(ErrorKind::kConfig,
                str("a run cannot change ", join(changed, ", "), " on resume; start a new run",
                    fits_weights ? ", with init_from to keep the weights" : ""));
  }
  return config;
}

std::vector<std::string> overrides_to_go_on(const std::vector<std::string>& overrides) {
  Config defaults;
  const SettingTable table = config_settings(defaults);
  std::vector<std::string> taken = overrides_by_setting(overrides);
  std::erase_if(taken, [&](const std::string& override) {
    const size_t equals = override.find('=');
    if (equals == std::string::npos) return false;
    const std::string key = override.substr(0, equals);
    const std::string value = override.substr(equals + 1);
    if (key == "train.time" || key == "model.size") return true;
    const bool is_auto = value == "auto" || value == "\"auto\"" || value == "null";
    const Setting* setting = is_auto ? table.find(key) : nullptr;
    if (setting == nullptr) return false;
    return setting->null_meaning.starts_with("the recipe's") || key.starts_with("model.") ||
           key.starts_with("tokenizer.add_");
  });
  return taken;
}

void refuse_unlike_trials(const RunFolder& run, const Config& before, const Config& after) {
  if (before.restart.seeds == 1 || !is_there(run.trials()) || !run.checkpoint_steps().empty()) {
    return;
  }
  std::vector<std::string> unlike;
  for (const SettingChange& change : changed_settings(before, after)) {
    if (change.unused.empty() && moves_losses(change.key)) unlike.push_back(change.key);
  }
  if (unlike.empty()) return;
  throw Error(
      ErrorKind::kConfig,
      str("the trials of random restart would not be alike after a change of ", join(unlike, ", "),
          "; resume without it, and again with it once the best goes on"));
}

}  // namespace lmtrain
