// The settings of a run that have changed since its config was written, and those that may.
//
// A run that goes on, or a branch of it, keeps what its weights, its order of data and the state of
// its optimizer rest on; trials that are compared with each other keep what their losses rest on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct SettingChange {
  std::string key;
  nlohmann::ordered_json was, is;
  std::string unused;  // why it has no effect; empty when it has
};
// In the order of the table of settings.
std::vector<SettingChange> changed_settings(const Config& before, const Config& after);
// The settings of a config that a run, whose own config is `run`, does not take although they are
// neither its own nor defaults: a person may have edited the file and think that they hold. Names,
// init_from and a device that has become "cuda:0" from "cuda" are not among them.
std::vector<SettingChange> overlooked_settings(const Config& run, const Config& given);
// The same as the field "changed" of an event: [{"key", "was", "is"}].
nlohmann::ordered_json changes_json(const std::vector<SettingChange>& changes);

// The settings and sections of `after` that a run cannot go on with after `before`.
std::vector<std::string> changed_for_good(const Config& before, const Config& after);
// The config that the run in `run` goes on with: its own, which is `before`, with `overrides` as
// typed after --set. Error(kConfig) when one of them is changed for good.
Config changed_config(const RunFolder& run, const Config& before,
                      const std::vector<std::string>& overrides);
// Error(kConfig) when trials of the run are still compared with each other and would not be alike
// after the change.
void refuse_unlike_trials(const RunFolder& run, const Config& before, const Config& after);

}  // namespace lmtrain
