// Adds the options for the config of a command and for changes to it, and loads that config.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "checkpoint/given_model.h"
#include "cli/validators.h"
#include "config/parse.h"

namespace lmtrain {

// Adds the argument for the path of the config file, and --set, whose KEY=VALUE go to `overrides`.
// Both must live until the command line is parsed.
inline void add_config_options(CLI::App& command, std::string& config,
                               std::vector<std::string>& overrides) {
  command.add_option("config", config, "The run configuration, a JSON file")
      ->required()
      ->check(not_empty());
  command.add_option("--set", overrides, "Override a setting: --set optimizer.lr=3e-4")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

// Loads the config of a run to begin from the file `config`. Where `init_from` names a run, its
// best checkpoint is taken. Throws the errors of load_config and best_checkpoint_of.
inline Config load_new_config(const std::string& config,
                              const std::vector<std::string>& overrides) {
  return load_config(config, overrides, InitFrom::kRead, best_checkpoint_of);
}

}  // namespace lmtrain
