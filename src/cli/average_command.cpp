#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "checkpoint/average_models.h"
#include "cli/commands.h"
#include "cli/options.h"

namespace lmtrain {
namespace {

struct AverageArguments {
  std::vector<std::string> targets;
  std::string to;
};

int average(const AverageArguments& options) {
  const std::vector<std::filesystem::path> targets(options.targets.begin(), options.targets.end());
  const ModelExport done = average_models(targets, options.to);
  std::cout << "mean     of " << targets.size() << " models\nwritten  " << options.to << ": "
            << format_count(static_cast<double>(done.parameters)) << " parameters in fp32, "
            << format_bytes(done.bytes) << " in "
            << counted(static_cast<int64_t>(done.files), "file") << std::endl;
  return 0;
}

}  // namespace

void add_average_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<AverageArguments>();
  CLI::App* command =
      app.add_subcommand("average", "Write the mean of the weights of several checkpoints");
  command
      ->add_option("targets", options->targets,
                   "Checkpoints, run folders or HF Llama folders, two or more")
      ->required()
      ->check(not_empty());
  command->add_option("--to", options->to, "The folder to write; nothing may be there")
      ->type_name("PATH")
      ->required()
      ->check(not_empty());
  command->callback([options, &action] { action = [options] { return average(*options); }; });
}

}  // namespace lmtrain
