#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/run_setup.h"

namespace lmtrain {
namespace {

struct Options {
  std::string run_dir;
  std::vector<std::string> overrides;
};

int resume(const Options& options) {
  const RunFolder run(std::filesystem::absolute(options.run_dir).lexically_normal());
  if (!std::filesystem::is_directory(run.path())) {
    throw Error(ErrorKind::kUsage,
                str(run.path().string(),
                    " is not a run folder; a run is started with: lmtrain train CONFIG.json"));
  }
  if (!run.holds_run()) {
    throw Error(ErrorKind::kUsage,
                str("there is no run in ", run.path().string(),
                    " (no config.json); start one with: lmtrain train CONFIG.json --run-dir ",
                    options.run_dir));
  }
  return resume_run(run, options.overrides);
}

}  // namespace

void add_resume_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("resume", "Go on with a run from its newest valid checkpoint");
  command->add_option("run", options->run_dir, "The run folder")->required();
  command
      ->add_option("--set", options->overrides,
                   "Change a setting for the rest of the run: --set train.tokens=1B")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback([options, &action] { action = [options] { return resume(*options); }; });
}

}  // namespace lmtrain
