#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

struct Options {
  std::string key;
  std::string config;
  std::vector<std::string> overrides;
};

}  // namespace

void add_config_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("config", "Explain, describe or show configurations");
  command->require_subcommand(1);

  command->add_subcommand("schema", "Print the JSON Schema of a run configuration")
      ->callback([&action] {
        action = [] {
          std::cout << config_schema().dump(2) << std::endl;
          return 0;
        };
      });

  CLI::App* explain =
      command->add_subcommand("explain", "Meaning, default, range and source of a setting");
  explain->add_option("key", options->key, "A setting (optimizer.lr) or a section; none: all");
  explain->callback([options, &action] {
    action = [options] {
      std::cout << explain_setting(options->key) << std::flush;
      return 0;
    };
  });

  CLI::App* show =
      command->add_subcommand("show", "Check a configuration and print it with every default");
  show->add_option("config", options->config, "The run configuration, a JSON file")->required();
  show->add_option("--set", options->overrides, "Override a setting")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  show->callback([options, &action] {
    action = [options] {
      std::cout << show_config(load_config(options->config, options->overrides)) << std::flush;
      return 0;
    };
  });
}

}  // namespace lmtrain
