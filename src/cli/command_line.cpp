#include "cli/command_line.h"

#include <algorithm>

#include "base/text.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

bool is_option(const std::string& word) { return word.size() > 1 && word.starts_with('-'); }

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : shown_commands(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::string no_such_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  const std::string nearest = nearest_word(word, names);
  return str("there is no command \"", word, "\"",
             nearest.empty() ? "; the commands are "
                             : str("; did you mean \"", nearest, "\"? The commands are "),
             join(names, ", "), "; run lmtrain --help");
}

// "lmtrain config show".
std::string command_path(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? "lmtrain" : command_path(*parent) + " " + app.get_name();
}

// Holds the setting that an option's name spells: "--learning-rate", "--lr", "--optimizer.lr".
struct NearSetting {
  std::string key;     // empty: none
  bool exact = false;  // the name is the key, or its last part
};
NearSetting setting_named(const std::string& name) {
  std::string word = name;
  std::replace(word.begin(), word.end(), '-', '_');
  Config config;
  const SettingTable table = config_settings(config);
  NearSetting near{nearest_key(word, "", table)};
  if (table.find(near.key) == nullptr) return {};
  near.exact = near.key == word || near.key.ends_with("." + word);
  return near;
}

// Returns the message about an unknown option. `value` is the word after it, for the example.
std::string no_such_option(const CLI::App& app, const std::string& word, const std::string& value) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::vector<std::string> options = option_names(app);
  const bool takes_settings = app.get_option_no_throw("--set") != nullptr;
  const NearSetting setting = takes_settings ? setting_named(name) : NearSetting{};
  const std::string nearest = setting.exact ? "" : nearest_word(word, options);
  std::string cure;
  if (!nearest.empty()) {
    cure = str("did you mean \"", nearest, "\"?");
  } else if (!setting.key.empty()) {
    // "--batch-size 8" counts rows in other tools, and batch.* tokens.
    const bool other_unit = setting.key.starts_with("batch.") && !setting.exact;
    cure = str("settings are given with --set: --set ", setting.key, "=",
               other_unit      ? "TOKENS"
               : value.empty() ? "VALUE"
                               : value);
  } else {
    cure = str("its options are ", join(options, ", "));
  }
  const std::string command = command_path(app);
  return str("there is no option \"", word, "\" of ", command, "; ", cure,
             nearest.empty() ? "; run " : " Run ", command, " --help");
}

// Returns a message for "train.steps=10" without --set, and for "--set train.steps 10"; else an
// empty text.
std::string setting_without_option(const CLI::App& app, const std::string& two_before,
                                   const std::string& before, const std::string& word) {
  if (app.get_option_no_throw("--set") == nullptr) return "";
  const auto told = [](const std::string& setting) {
    return str("a setting is given as one word with --set: --set ", setting);
  };
  const size_t equals = word.find('=');
  if (equals != std::string::npos && before != "--set" &&
      setting_named(word.substr(0, equals)).exact)
    return told(word);
  if (two_before == "--set" && before.find('=') == std::string::npos && setting_named(before).exact)
    return told(str(before, "=", word));
  return "";
}

}  // namespace

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + std::max(1, argc));
  if (arguments.empty()) return arguments;
  if (arguments[0] == "version") arguments[0] = "--version";
  if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  // CLI11 takes "[a,b]" for a list of words, where a command takes several.
  if (arguments[0] == "report" || arguments[0] == "average") {
    for (std::string& word : arguments)
      if (word.starts_with('[') && word.ends_with(']')) word.insert(0, "./");
  }
  return arguments;
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return "";
  return command_named(app, arguments[0]) != nullptr ? "" : no_such_command(app, arguments[0]);
}

bool lacks_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    command = command_named(*command, word);
    if (command == nullptr) return false;
  }
  return !command->get_subcommands(nullptr).empty();
}

std::string unknown_word(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    if (!is_option(word)) {
      if (command->get_subcommands(nullptr).empty()) {
        const std::string before = i > 0 ? arguments[i - 1] : "";
        std::string setting =
            setting_without_option(*command, i > 1 ? arguments[i - 2] : "", before, word);
        if (!setting.empty()) return setting;
        continue;
      }
      const CLI::App* next = command_named(*command, word);
      if (next == nullptr) return no_such_command(*command, word);
      command = next;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const bool has_next = i + 1 < arguments.size() && !is_option(arguments[i + 1]);
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) {
      return no_such_option(*command, name,
                            equals != std::string::npos ? word.substr(equals + 1)
                            : has_next                  ? arguments[i + 1]
                                                        : "");
    }
    const bool takes_a_value = option->get_items_expected_min() > 0;
    if (takes_a_value && equals == std::string::npos) ++i;
  }
  return "";
}

}  // namespace lmtrain
