// The config of a command, and what is changed in it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lmtrain {

inline void add_config_options(CLI::App& command, std::string& config,
                               std::vector<std::string>& overrides) {
  command.add_option("config", config, "The run configuration, a JSON file")->required();
  command.add_option("--set", overrides, "Override a setting: --set optimizer.lr=3e-4")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace lmtrain
