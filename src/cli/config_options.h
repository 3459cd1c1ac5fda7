// The config of a command, and what is changed in it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/parse.h"
#include "run/given_model.h"

namespace lmtrain {

inline void add_config_options(CLI::App& command, std::string& config,
                               std::vector<std::string>& overrides) {
  command.add_option("config", config, "The run configuration, a JSON file")->required();
  command.add_option("--set", overrides, "Override a setting: --set optimizer.lr=3e-4")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

// The config of a run to begin. `init_from` may name a run: its newest valid checkpoint is meant.
inline Config load_new_config(const std::string& config,
                              const std::vector<std::string>& overrides) {
  return load_config(config, overrides, InitFrom::kRead, newest_checkpoint_of);
}

}  // namespace lmtrain
