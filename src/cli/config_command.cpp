#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/config_options.h"
#include "cli/pager.h"
#include "config/describe.h"
#include "config/parse.h"
#include "config/recipe.h"

namespace lmtrain {
namespace {

struct ConfigArguments {
  std::string key;
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
  bool all = false;
};

// All settings are too long for a screen.
int explain(const ConfigArguments& options) {
  if (options.all && !options.key.empty())
    throw Error(ErrorKind::kUsage, "--all explains all settings; it takes no key");
  const bool is_overview = options.key.empty() && !options.all;
  print_by_pages(is_overview ? explain_first_settings() : explain_setting(options.key));
  return 0;
}

int show(const ConfigArguments& options) {
  Config config = load_new_config(options.config, options.overrides);
  choose_settings(
      config, {.vocab_size = config.model.vocab_size.value_or(config.tokenizer.train.vocab_size)});
  if (options.json) {
    std::cout << config_to_json(config).dump() << std::endl;
  } else {
    std::cout << show_config(config) << std::flush;
  }
  return 0;
}

}  // namespace

void add_config_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand("config", "Explain, describe or show configurations");
  command->require_subcommand(1);

  command->add_subcommand("schema", "Print the JSON Schema of a run configuration")
      ->callback([&action] {
        action = [] {
          std::cout << config_schema().dump(2) << std::endl;
          return 0;
        };
      });

  CLI::App* explain_app =
      command->add_subcommand("explain", "Meaning, default, range and source of a setting");
  explain_app->add_option("key", options->key,
                          "A setting (optimizer.lr) or a section; none: those that matter first");
  explain_app->add_flag("--all", options->all, "Explain all settings");
  explain_app->callback([options, &action] { action = [options] { return explain(*options); }; });

  CLI::App* show_app =
      command->add_subcommand("show", "Check a configuration and print it with every default");
  add_config_options(*show_app, options->config, options->overrides);
  show_app->add_flag("--json", options->json, "Print one JSON document, without notes");
  show_app->callback([options, &action] { action = [options] { return show(*options); }; });
}

}  // namespace lmtrain
