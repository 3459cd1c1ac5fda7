#include <iostream>

#include "cli/commands.h"
#include "cli/completion.h"

namespace lmtrain {

void add_completion_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes command lines in a shell");
  command->require_subcommand(1);
  const auto add = [&](const char* shell, const char* description,
                       std::string (*script)(const CLI::App&)) {
    command->add_subcommand(shell, description)->callback([&app, &action, script] {
      action = [&app, script] {
        std::cout << script(app) << std::flush;
        return 0;
      };
    });
  };
  add("bash", "For bash: source <(lmtrain completion bash)", bash_completion);
  add("zsh", "For zsh: source <(lmtrain completion zsh), after compinit", zsh_completion);
  add("fish", "For fish: lmtrain completion fish | source", fish_completion);
}

}  // namespace lmtrain
