#include <filesystem>
#include <iostream>
#include <memory>

#include "base/files/file.h"
#include "cli/commands.h"
#include "cli/words/manual.h"
#include "cli/words/validators.h"

namespace lmtrain {
namespace {

struct ManualArguments {
  std::string folder, prose;
};

int write_manual(const CLI::App& app, const ManualArguments& options) {
  const std::string prose = options.prose.empty() ? "" : read_file(options.prose);
  create_directories(options.folder);
  for (const ManualPage& page : manual_pages(app, LMTRAIN_VERSION, prose)) {
    const std::filesystem::path path = std::filesystem::path(options.folder) / page.file;
    write_file_atomic(path, page.text);
    std::cout << path.string() << "\n";
  }
  std::cout << std::flush;
  return 0;
}

}  // namespace

void add_manual_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ManualArguments>();
  CLI::App* command = app.add_subcommand("manual", "Write the manual pages of all commands");
  command->group("");  // for the build and for packages: --help does not show it
  command->add_option("folder", options->folder, "The folder to write them to")
      ->required()
      ->check(not_empty());
  command
      ->add_option("--prose", options->prose,
                   "A page in Markdown that describes the commands: docs/cli.md")
      ->check(not_empty());
  command->callback([&app, options, &action] {
    action = [&app, options] { return write_manual(app, *options); };
  });
}

}  // namespace lmtrain
