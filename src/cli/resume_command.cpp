#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/group.h"
#include "cli/run_argument.h"
#include "cli/run_setup.h"
#include "cli/words/validators.h"

namespace lmtrain {
namespace {

struct ResumeArguments {
  std::string run_dir;
  std::vector<std::string> overrides;
  std::optional<int64_t> from;
  std::string branch_dir;
  bool json = false;
};

int resume(const ResumeArguments& options) {
  const RunFolder run = run_of_argument(options.run_dir, "resume");
  if (!options.branch_dir.empty()) {
    return branch_run(
        run, {options.from, std::filesystem::absolute(options.branch_dir).lexically_normal()},
        options.overrides, options.json);
  }
  if (options.from) {
    throw Error(ErrorKind::kUsage,
                "--from begins a new run, so that the steps after it are not lost; name its folder "
                "with --run-dir");
  }
  return resume_run(run, options.overrides, options.json);
}

}  // namespace

void add_resume_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ResumeArguments>();
  CLI::App* command =
      app.add_subcommand("resume", "Go on with a run from its newest valid checkpoint");
  command->add_option("run", options->run_dir, "The run folder")->required();
  command
      ->add_option("--set", options->overrides,
                   "Change a setting for the rest of the run: --set train.tokens=1B")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--from", options->from,
                   "Begin a new run, in --run-dir, from the checkpoint of this step")
      ->check(integer_from_zero());
  command->add_option("--run-dir", options->branch_dir,
                      "A folder for a new run that begins from a checkpoint of this one");
  command->add_flag("--json", options->json,
                    "Print the final status as a line of JSON on a terminal too");
  command->callback([options, &action] {
    action = [options] { return in_processes([&] { return resume(*options); }); };
  });
}

}  // namespace lmtrain
