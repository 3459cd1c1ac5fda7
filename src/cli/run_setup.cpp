#include "cli/run_setup.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/parse.h"
#include "config/settings.h"
#include "train/resolve.h"
#include "train/target.h"

namespace lmtrain {
namespace {

// Settings that the weights, the order of data or the meaning of the optimizer's state rest on.
std::vector<std::string> changed_for_good(const Config& before, const Config& after) {
  std::vector<std::string> changed;
  const auto compare = [&](const char* key, const auto& old_value, const auto& new_value) {
    if (!(old_value == new_value)) changed.emplace_back(key);
  };
  DataConfig data = after.data;
  data.cache_dir = before.data.cache_dir;
  compare("seed", before.seed, after.seed);
  compare("init_from", before.init_from, after.init_from);
  compare("tokenizer", before.tokenizer, after.tokenizer);
  compare("data", before.data, data);
  compare("sequence", before.sequence, after.sequence);
  compare("model", before.model, after.model);
  compare("batch.tokens", before.batch.tokens, after.batch.tokens);
  compare("optimizer.type", before.optimizer.type, after.optimizer.type);
  if (before.optimizer.type == "soap") {  // which sides have a preconditioner
    compare("optimizer.max_precond_dim", before.optimizer.max_precond_dim,
            after.optimizer.max_precond_dim);
  }
  return changed;
}

// Says what the optimizer does otherwise from here on.
void note_optimizer_changes(Config before, Config after) {
  const SettingTable old_settings = config_settings(before);
  const SettingTable settings = config_settings(after);
  for (const Setting& setting : settings.settings()) {
    if (!setting.key.starts_with("optimizer.") || !why_unused(setting, settings).empty()) continue;
    const std::string was = value_text(*old_settings.find(setting.key));
    const std::string is = value_text(setting);
    if (is == was) continue;
    log_note(str(setting.key, " is ", is, " from the next update on (was ", was,
                 "); what the optimizer remembers is kept"));
  }
}

}  // namespace

Trainer make_trainer(Config& config, const RunFolder& run, std::optional<int64_t> checkpoint) {
  resolve_runtime(config);
  const PreparedData data = prepare_data(config, static_cast<int>(*config.threads));
  if (checkpoint) require_same_data(run.checkpoint(*checkpoint), data.fingerprint);
  resolve_vocab_size(config, Tokenizer::load(data.tokenizer_model));
  return {config, data, run, checkpoint};
}

int run_trainer(Trainer& trainer) {
  try {
    const RunOutcome outcome = trainer.run();
    std::cout << outcome.status << std::endl;
    return outcome.exit_code;
  } catch (...) {
    if (!trainer.failed_status().empty()) std::cout << trainer.failed_status() << std::endl;
    throw;
  }
}

void write_run_config(const RunFolder& run, const Config& config) {
  write_file_atomic(run.config(), config_to_json(config).dump(2) + "\n");
}

int resume_run(const RunFolder& run, const std::vector<std::string>& overrides) {
  const FileLock lock = run.lock();
  const Config before = load_config(run.config().string(), {}, InitFrom::kSkip);
  Config config = load_config(run.config().string(), overrides, InitFrom::kSkip);
  check_supported(config);
  make_paths_absolute(config);
  const std::vector<std::string> changed = changed_for_good(before, config);
  if (!changed.empty()) {
    throw Error(ErrorKind::kConfig,
                str("a run cannot change ", join(changed, ", "),
                    " on resume; start a new run, with init_from to keep the weights"));
  }
  const std::optional<int64_t> checkpoint =
      newest_valid_checkpoint(run, /*skip_training_state=*/false);
  Trainer trainer = make_trainer(config, run, checkpoint);
  if (!(config == before)) write_run_config(run, config);
  note_optimizer_changes(before, config);
  log_note(trainer.summary());
  return run_trainer(trainer);
}

}  // namespace lmtrain
