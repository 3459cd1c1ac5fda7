#include "cli/run_setup.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/length_picture.h"
#include "config/parse.h"
#include "config/settings.h"
#include "formats/manifest.h"
#include "train/adopt.h"
#include "train/eval_share.h"
#include "train/failure.h"
#include "train/micro_fit.h"
#include "train/resolve.h"
#include "train/start_checks.h"
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
  compare("restart.seeds", before.restart.seeds, after.restart.seeds);
  compare("restart.tokens", before.restart.tokens, after.restart.tokens);
  compare("restart.vary", before.restart.vary, after.restart.vary);
  return changed;
}

struct Change {
  std::string key, was, is;
};

// Of the settings in use.
std::vector<Change> changed_settings(Config before, Config after) {
  const SettingTable old_settings = config_settings(before);
  const SettingTable settings = config_settings(after);
  std::vector<Change> changes;
  for (const Setting& setting : settings.settings()) {
    if (!why_unused(setting, settings).empty()) continue;
    Change change{setting.key, value_text(*old_settings.find(setting.key)), value_text(setting)};
    if (change.is != change.was) changes.push_back(std::move(change));
  }
  return changes;
}

// Says what the optimizer does otherwise from here on.
void note_optimizer_changes(const Config& before, const Config& after) {
  for (const Change& change : changed_settings(before, after)) {
    if (!change.key.starts_with("optimizer.")) continue;
    log_note(str(change.key, " is ", change.is, " from the next update on (was ", change.was,
                 "); what the optimizer remembers is kept"));
  }
}

// Trials are compared with each other: what their losses rest on stays until the best goes on.
void refuse_unlike_trials(const RunFolder& run, const Config& before, const Config& after) {
  if (before.restart.seeds == 1 || !is_there(run.trials()) || !run.checkpoint_steps().empty()) {
    return;
  }
  std::vector<std::string> unlike;
  for (const Change& change : changed_settings(before, after)) {
    const std::string section = change.key.substr(0, change.key.find('.'));
    const bool counts = section == "optimizer" || section == "lr_schedule" || section == "clip" ||
                        section == "loss" || section == "precision" ||
                        change.key == "eval.tokens" ||
                        (section == "train" && change.key != "train.max_time");
    if (counts) unlike.push_back(change.key);
  }
  if (unlike.empty()) return;
  throw Error(
      ErrorKind::kConfig,
      str("the trials of random restart would not be alike after a change of ", join(unlike, ", "),
          "; resume without it, and again with it once the best goes on"));
}

Config changed_config(const RunFolder& run, const Config& before,
                      const std::vector<std::string>& overrides) {
  Config config = load_config(run.config().string(), overrides, InitFrom::kSkip);
  make_paths_absolute(config);
  const std::vector<std::string> changed = changed_for_good(before, config);
  if (!changed.empty()) {
    throw Error(ErrorKind::kConfig,
                str("a run cannot change ", join(changed, ", "),
                    " on resume; start a new run, with init_from to keep the weights"));
  }
  note_optimizer_changes(before, config);
  return config;
}

// The folder holds the run from here on, so the command that has begun it would be refused.
template <class Work>
int with_the_run_there(const RunFolder& run, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    if (failure.kind != ErrorKind::kIo) throw;
    throw Error(ErrorKind::kIo,
                str(failure.message, "; then go on with: lmtrain resume ", run.path().string()));
  }
}

int train(RestartableRun& training, bool json) {
  const auto print_status = [&](const std::string& status) {
    if (json || !output_is_terminal()) std::cout << status << std::endl;
  };
  log_note(training.summary());
  try {
    const RunOutcome outcome = training.run();
    print_status(outcome.status);
    return outcome.exit_code;
  } catch (...) {
    if (!training.failed_status().empty()) print_status(training.failed_status());
    throw;
  }
}

PreparedData resolve_and_prepare(Config& config) {
  resolve_runtime(config);
  PreparedData data = prepare_data(config, static_cast<int>(*config.threads));
  resolve_vocab_size(config, Tokenizer::load(data.tokenizer_model));
  resolve_eval_tokens(config, data);
  prepare_memory(config);
  return data;
}

}  // namespace

RestartableRun make_run(Config& config, const RunFolder& run) {
  const PreparedData data = resolve_and_prepare(config);
  return {config, data, run};
}

RestartableRun make_new_run(Config& config, const RunFolder& run) {
  const PreparedData data = resolve_and_prepare(config);
  require_room_for_checkpoint(config, run);
  RestartableRun training(config, data, run);
  if (const std::optional<RunPlan> plan = training.plan()) {
    const CheckpointRoom room = checkpoint_room(config, *plan, run);
    if (room.is_short()) {
      log_warning(str("not all checkpoints of the run will fit: ", describe_room(room),
                      "; free some space, lower checkpoint.keep, or give another folder with "
                      "--run-dir"));
    }
  }
  return training;
}

FileLock lock_run(const RunFolder& run) {
  FileLock lock = run.lock();
  log_to_file(run.log());
  return lock;
}

int train_run(const RunFolder& run, RestartableRun& training, bool json) {
  return with_the_run_there(run, [&] { return train(training, json); });
}

void write_run_config(const RunFolder& run, const Config& config) {
  write_file_atomic(run.config(), config_to_json(config).dump(2) + "\n");
}

int resume_run(const RunFolder& run, const std::vector<std::string>& overrides, bool json) {
  const FileLock lock = lock_run(run);
  const Config before = load_config(run.config().string(), {}, InitFrom::kSkip);
  Config config = changed_config(run, before, overrides);
  config.run_dir = run.path().string();  // the run may have been copied or moved
  refuse_unlike_trials(run, before, config);
  RestartableRun training = make_run(config, run);
  if (!(config == before)) write_run_config(run, config);
  return train_run(run, training, json);
}

int branch_run(const RunFolder& from, const Branch& branch,
               const std::vector<std::string>& overrides, bool json) {
  const RunFolder run(branch.run_dir);
  require_new_run(run);
  const std::vector<int64_t> steps = from.checkpoint_steps();
  if (branch.step && std::find(steps.begin(), steps.end(), *branch.step) == steps.end()) {
    std::vector<std::string> known;
    for (const int64_t step : steps) known.push_back(std::to_string(step));
    throw Error(ErrorKind::kUsage,
                str(from.path().string(), " has no checkpoint of step ", *branch.step,
                    known.empty() ? "" : str("; it has those of ", join(known, ", "))));
  }
  const std::optional<int64_t> step =
      branch.step ? branch.step : newest_valid_checkpoint(from, /*skip_training_state=*/false);
  if (!step) {
    throw Error(ErrorKind::kUsage,
                str("there is no checkpoint in ", from.path().string(), " to branch from"));
  }
  verify_checkpoint_files(from.checkpoint(*step), /*skip_training_state=*/false);
  const Config before = load_config(from.config().string(), {}, InitFrom::kSkip);
  Config config = changed_config(from, before, overrides);
  const std::filesystem::path file = from.checkpoint(*step) / kStateFile;
  const TrainingState state = parse_state(read_file(file), file.string());
  // Of random restart's trials only the one that the checkpoint comes from is in the branch.
  config = config_of_seed(config, state.seed);
  config.restart = {};
  config.name = run.path().filename().string();
  config.run_dir = run.path().string();
  precision_of(config);  // a device or precision that is not there is refused before a folder is

  const FileLock lock = lock_run(run);
  require_new_run(run);  // begun by another process since
  adopt_checkpoint(from, *step, run);
  write_run_config(run, config);
  return with_the_run_there(run, [&] {
    RestartableRun training = make_run(config, run);
    write_run_config(run, config);  // with what was auto made concrete
    RunLog(run, state, /*tensorboard=*/false)
        .event("start", state, str("branch of ", from.checkpoint(*step).string()),
               {{"version", LMTRAIN_VERSION},
                {"device", config.device},
                {"precision", config.precision}});
    return train(training, json);
  });
}

}  // namespace lmtrain
