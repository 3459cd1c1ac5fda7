#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/config_options.h"
#include "cli/run_setup.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  std::string run_dir;
  bool dry_run = false;
  bool go_on = false;
};

int train(const Options& options) {
  Config config = load_config(options.config, options.overrides);
  if (!options.run_dir.empty()) config.run_dir = options.run_dir;
  config.run_dir = std::filesystem::absolute(config.resolved_run_dir()).lexically_normal().string();
  make_paths_absolute(config);
  const RunFolder run(*config.run_dir);
  if (run.holds_run() && !options.dry_run) {
    if (options.go_on) return resume_run(run, options.overrides);
    refuse_existing_run(run);
  }
  if (options.dry_run) {
    std::cout << describe_run(config, run) << std::endl;
    return 0;
  }
  FileLock lock;  // outlives the training, whose last save may still be under way when it fails
  // Nothing is created before everything that can be wrong with config and data was found.
  RestartableRun training = make_run(config, run);
  lock = run.lock();
  if (run.holds_run()) refuse_existing_run(run);  // begun by another process since
  write_run_config(run, config);
  return train_run(run, training);
}

}  // namespace

void add_train_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train the model that a config describes");
  add_config_options(*command, options->config, options->overrides);
  command->add_option("--run-dir", options->run_dir, "The run folder (default: runs/NAME)");
  command->add_flag("--dry-run", options->dry_run,
                    "Prepare the data, say what would happen, train nothing");
  command->add_flag("--continue", options->go_on,
                    "Resume the run if the folder holds one, else start it");
  command->callback([options, &action] { action = [options] { return train(*options); }; });
}

}  // namespace lmtrain
