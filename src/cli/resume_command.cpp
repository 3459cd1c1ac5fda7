#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/changed_settings.h"
#include "checkpoint/run_config.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/path_arguments.h"
#include "device/device.h"
#include "training/launch.h"
#include "training/verify_resume.h"

namespace lmtrain {
namespace {

struct ResumeArguments {
  std::string run_dir;
  std::vector<std::string> overrides;
  std::optional<int64_t> from;
  std::string branch_dir;
  std::optional<int64_t> verify;
  bool json = false;
};

void print(const ResumeCheck& check, bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"equal", check.differences.empty()},
                                        {"from", check.from},
                                        {"steps", check.steps},
                                        {"interrupted_after", check.interrupted_after},
                                        {"differences", check.differences},
                                        {"seconds", check.seconds}}
              << std::endl;
    return;
  }
  std::cout << (check.differences.empty() ? "equal" : "different") << ": " << check.steps
            << " steps after step " << check.from << ", straight on and with a resume after "
            << check.interrupted_after << ", in " << printed("%.1f s", check.seconds) << std::endl;
  for (const std::string& difference : check.differences) std::cout << difference << std::endl;
}

// Reads the run and leaves it as it is.
int verify(const RunFolder& folder, const ResumeArguments& options) {
  const RunConfig own = read_run_config(folder);
  const RunFolder run(folder.path(), own.identity);
  Config config = config_of_check(changed_config(run, own.config, options.overrides));
  config.run_dir = run.path().string();
  const PreparedData data = resolve_and_prepare(config);
  if (device_of(config).is_cuda() && !config.deterministic)
    log_note("on a GPU a resume gives the same bits only with deterministic true");
  const ResumeCheck check = verify_resume(config, data, run, *options.verify, joined_processes());
  print(check, options.json);
  return check.differences.empty() ? 0 : exit_code(ErrorKind::kNumeric);
}

int resume(const ResumeArguments& options) {
  const RunFolder run = run_of_argument(options.run_dir, "resume");
  if (options.verify) return verify(run, options);
  if (!options.branch_dir.empty()) {
    const std::filesystem::path branch = without_final_slash(absolute_path(options.branch_dir));
    return branch_run(run, {options.from, branch}, options.overrides, options.json);
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
  command->add_option("run", options->run_dir, "The run folder")->required()->check(not_empty());
  command
      ->add_option("--set", options->overrides,
                   "Change a setting for the rest of the run: --set train.tokens=1B")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--from", options->from,
                   "Begin a new run, in --run-dir, from the checkpoint of this step")
      ->transform(integer_from(0));
  command
      ->add_option("--run-dir", options->branch_dir,
                   "A folder for a new run that begins from a checkpoint of this one")
      ->check(not_empty());
  command
      ->add_option("--verify", options->verify,
                   "Leave the run as it is, and show that a resume is exact: train so many steps "
                   "straight on and with a resume in the middle, and compare all bits")
      ->transform(integer_from(2))
      ->excludes("--from", "--run-dir");
  command->add_flag("--json", options->json,
                    "Print the final status as a line of JSON on a terminal too; with --verify "
                    "what was found");
  command->callback([options, &action] {
    action = [options] { return in_processes([&] { return resume(*options); }); };
  });
}

}  // namespace lmtrain
