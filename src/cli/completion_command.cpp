#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

// Scripts that complete lmtrain's command line in a shell: commands, options, the keys after --set
// and of `config explain`, else names of files. They are made from the same declarations as --help.

// "train" or "config show", with what may follow it.
struct Command {
  std::string path, description;
  std::vector<const CLI::Option*> options;
  std::vector<const CLI::App*> commands;
  bool takes_key = false;   // its argument is the key of a setting
  bool takes_file = false;  // it has another argument
};

void add_commands(const CLI::App& app, const std::string& path, std::vector<Command>& out) {
  Command command{path, app.get_description(), {}, shown_commands(app)};
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) command.options.push_back(option);
    if (!option->get_positional()) continue;
    (option->get_name() == "key" ? command.takes_key : command.takes_file) = true;
  }
  const std::vector<const CLI::App*> below = command.commands;
  out.push_back(std::move(command));
  for (const CLI::App* sub : below)
    add_commands(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
}

// The first is the program itself.
std::vector<Command> commands_below(const CLI::App& app) {
  std::vector<Command> commands;
  add_commands(app, "", commands);
  return commands;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

// Keys that hold a value; others are accepted and have no effect.
std::vector<std::string> setting_keys() {
  Config config;
  const SettingTable table = config_settings(config);
  std::vector<std::string> keys;
  for (const Setting& setting : table.settings()) {
    if (!std::holds_alternative<std::monostate>(setting.slot)) keys.push_back(setting.key);
  }
  return keys;
}

std::vector<std::string> names_of(const Command& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.commands) names.push_back(sub->get_name());
  for (const CLI::Option* option : command.options) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Returns the text as one word of a POSIX shell.
std::string single_quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

// The lines of a `case` that finds the command among the words before the cursor, for bash and zsh:
// `command` grows from "" to "config" to "config show".
std::string command_cases(const std::vector<Command>& commands, const std::string& indent) {
  std::string text;
  for (size_t i = 1; i < commands.size(); ++i) {
    const std::string& path = commands[i].path;
    const size_t space = path.rfind(' ');
    const std::string seen = space == std::string::npos
                                 ? " " + path
                                 : path.substr(0, space) + " " + path.substr(space + 1);
    text += str(indent, single_quoted(seen), ") command=", single_quoted(path), " ;;\n");
  }
  return text;
}

// Each returns the text of a script for the program `app`, whose commands are declared already.
// bash 4.4: source it, or put it into share/bash-completion/completions/lmtrain.
std::string bash_completion(const CLI::App& app) {
  const std::vector<Command> commands = commands_below(app);
  std::string cases;
  for (const Command& command : commands) {
    cases += str("    ", single_quoted(command.path),
                 ") words=", single_quoted(join(names_of(command), " ")),
                 command.takes_key ? "\" $settings\"" : "", command.takes_file ? " files=yes" : "",
                 " ;;\n");
  }
  return str(R"(# Completes lmtrain's command line in bash: source <(lmtrain completion bash)
_lmtrain() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' word words='' files='' settings=)",
             single_quoted(join(setting_keys(), " ")), R"(
  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    case "$command $word" in
)",
             command_cases(commands, "      "), R"(    esac
  done
  COMPREPLY=()
  if [ "$previous" = --set ]; then
    compopt -o nospace
    mapfile -t COMPREPLY < <(compgen -W "$settings" -S = -- "$current")
    return
  fi
  case $command in
)",
             cases, R"(  esac
  if [ -n "$files" ] && [[ $current != -* ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F _lmtrain lmtrain
)");
}

// Returns the script for zsh 5: put it into a folder of $fpath as _lmtrain, or source it after
// compinit.
std::string zsh_completion(const CLI::App& app) {
  const std::vector<Command> commands = commands_below(app);
  // In a specification of _arguments and _describe.
  const auto escaped = [](std::string text) {
    for (const char* special : {"\\", ":", "[", "]"})
      text = replaced(text, special, std::string("\\") + special);
    return text;
  };
  std::string cases;
  for (const Command& command : commands) {
    cases += str("    ", single_quoted(command.path), ")\n");
    if (!command.commands.empty()) {
      cases += "      choices=(\n";
      for (const CLI::App* sub : command.commands)
        cases += str(
            "        ",
            single_quoted(escaped(sub->get_name()) + ":" + escaped(sub->get_description())), "\n");
      cases += "      )\n      _describe -t commands command choices\n";
    }
    cases += "      _arguments";
    for (const CLI::Option* option : command.options) {
      for (const std::string& name : option->get_lnames()) {
        const std::string value = !takes_value(*option) ? ""
                                  : name == "set"       ? ":setting:->setting"
                                                        : ":value:_files";
        cases += str(
            " \\\n        ",
            single_quoted(str("*--", name, "[", escaped(option->get_description()), "]", value)));
      }
    }
    if (command.takes_key) cases += " \\\n        ':setting:->key'";
    if (command.takes_file) cases += " \\\n        '*:file:_files'";
    cases += " ;;\n";
  }
  return str(R"(#compdef lmtrain
# Completes lmtrain's command line in zsh.
_lmtrain() {
  local command='' word state
  local -a choices settings
  settings=()",
             join(setting_keys(), " "), R"()
  for word in ${words[2,CURRENT-1]}; do
    case "$command $word" in
)",
             command_cases(commands, "      "), R"(    esac
  done
  local -a taken=(${(z)command})
  words=(lmtrain ${words[$#taken+2,-1]})
  (( CURRENT -= $#taken ))
  case $command in
)",
             cases, R"(  esac
  case $state in
    setting) compadd -S '=' -a settings ;;
    key) compadd -a settings ;;
  esac
}
if [ "$funcstack[1]" = _lmtrain ]; then _lmtrain "$@"; else compdef _lmtrain lmtrain; fi
)");
}

// Returns the script for fish 3: put it into share/fish/vendor_completions.d/lmtrain.fish, or
// source it.
std::string fish_completion(const CLI::App& app) {
  const auto quoted = [](const std::string& text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
  };
  const std::vector<Command> commands = commands_below(app);
  std::string text =
      str("# Completes lmtrain's command line in fish: lmtrain completion fish | source\n"
          "set -g __lmtrain_settings ",
          join(setting_keys(), " "), "\n");
  for (const Command& command : commands) {
    std::string condition = "__fish_use_subcommand";
    if (!command.path.empty()) {
      condition.clear();
      std::istringstream words(command.path);
      for (std::string word; words >> word;)
        condition += str(condition.empty() ? "" : "; and ", "__fish_seen_subcommand_from ", word);
    }
    const std::string begin = "complete -c lmtrain -n " + quoted(condition);
    // While one of its commands is missing, no file fits.
    for (const CLI::App* sub : command.commands) {
      std::vector<std::string> names;
      for (const CLI::App* other : command.commands) names.push_back(other->get_name());
      const std::string none_yet =
          command.path.empty()
              ? condition
              : str(condition, "; and not __fish_seen_subcommand_from ", join(names, " "));
      text += str("complete -c lmtrain -f -n ", quoted(none_yet), " -a ", quoted(sub->get_name()),
                  " -d ", quoted(sub->get_description()), "\n");
    }
    if (command.takes_key) text += begin + " -f -a '$__lmtrain_settings'\n";
    for (const CLI::Option* option : command.options) {
      for (const std::string& name : option->get_lnames()) {
        const std::string value = !takes_value(*option) ? ""
                                  : name == "set"       ? " -x -a '$__lmtrain_settings='"
                                                        : " -r";
        text += str(begin, " -l ", name, value, " -d ", quoted(option->get_description()), "\n");
      }
    }
  }
  return text;
}

}  // namespace

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
