#include <algorithm>
#include <iostream>
#include <memory>

#include "base/examine.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/changed_settings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_config.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/path_arguments.h"
#include "config/parse.h"
#include "config/units.h"
#include "training/launch.h"
#include "training/preflight.h"

namespace lmtrain {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string run_dir;
  bool dry_run = false;
  bool go_on = false;
  bool json = false;
};

// The run goes on with its own config, whatever has been written into the file since.
void warn_of_overlooked(const Config& given, const RunFolder& run,
                        const std::vector<std::string>& overrides) {
  Config own = read_run_config(run, overrides);
  make_paths_absolute(own);
  std::vector<std::string> settings;
  for (const SettingChange& change : overlooked_settings(own, given))
    settings.push_back(
        str(change.key, " ", change.is.dump(), " (the run: ", change.was.dump(), ")"));
  if (settings.empty()) return;
  log_warning(str(
      "the run in ", run.path().string(),
      " goes on with its own settings; these of the config are not taken: ", join(settings, ", "),
      "; to change one: lmtrain resume ", shell_quoted(run.path().string()), " --set KEY=VALUE"));
}

// Returns the overrides that a run takes when it goes on. Says which others it does not take, and
// that train.time and model.size of the config file `given` are resolved once.
std::vector<std::string> take_overrides(const RunFolder& run, const Config& given,
                                        const std::vector<std::string>& overrides) {
  std::vector<std::string> taken = overrides_to_go_on(overrides);
  std::vector<std::string> left;
  for (const std::string& override : overrides_by_setting(overrides)) {
    if (std::find(taken.begin(), taken.end(), override) == taken.end())
      left.push_back("--set " + override);
  }
  const auto is_of_file = [&](const std::string& key) {
    return given.origins.given(key) && !given.origins.origin(key).starts_with("--set");
  };
  if (given.train.time && is_of_file("train.time"))
    left.push_back("train.time " + write_duration(*given.train.time));
  if (given.model.size && is_of_file("model.size"))
    left.push_back("model.size " + *given.model.size);
  if (!left.empty()) {
    log_note(str("the run in ", run.path().string(),
                 " keeps the values that it began with; not chosen again: ", join(left, ", "),
                 given.train.time ? "; for another length: lmtrain resume " +
                                        shell_quoted(run.path().string()) + " --set train.tokens=N"
                                  : ""));
  }
  return taken;
}

int train(const TrainArguments& options) {
  Config config = load_new_config(options.config, options.overrides);
  take_run_dir(config, options.run_dir);
  config.run_dir = absolute_path(config.resolved_run_dir()).string();
  make_paths_absolute(config);
  RunFolder run(*config.run_dir);
  require_no_model(run);
  if (run.holds_run() && options.go_on) {
    const std::vector<std::string> overrides = take_overrides(run, config, options.overrides);
    warn_of_overlooked(config, run, overrides);
    if (!options.dry_run) return resume_run(run, overrides, options.json);
    const RunConfig own = read_run_config(run);
    const RunFolder known(run.path(), own.identity);
    changed_config(known, own.config, overrides);
    newest_valid_checkpoint(known, /*skip_training_state=*/false);
    std::cout << "would go on with the run in " << run.path().string() << std::endl;
    return 0;
  }
  require_new_run(run);
  RunLock lock;  // outlives the training, whose last save may still be under way when it fails
  // Nothing is created before everything that can be wrong with config and data was found; until
  // then the folder is not locked, and not looked into.
  RestartableRun training = make_new_run(config, run);
  if (options.dry_run) {
    std::cout << training.summary() << std::endl;
    for (const std::string& warning : training.warnings()) log_warning(warning);
    return 0;
  }
  lock = lock_run(run);
  require_new_run(run);  // begun by another process since
  write_run_config(run, config, /*step=*/0);
  return train_run(training, options.json);
}

}  // namespace

void add_train_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train the model that a config describes");
  add_config_options(*command, options->config, options->overrides);
  command->add_option("--run-dir", options->run_dir, "The run folder (default: runs/NAME)")
      ->check(not_empty());
  command->add_flag("--dry-run", options->dry_run,
                    "Prepare the data, say what would happen, train nothing");
  command->add_flag("--continue", options->go_on,
                    "Resume the run if the folder holds one, else start it");
  command->add_flag("--json", options->json,
                    "Print the final status as a line of JSON on a terminal too");
  command->callback([options, &action] {
    action = [options] {
      if (options->dry_run) return is_first_process() ? train(*options) : 0;
      return in_processes([&] { return train(*options); });
    };
  });
}

}  // namespace lmtrain
