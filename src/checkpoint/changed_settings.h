// These functions compare two configs of a run, and refuse changes that the run cannot take.
//
// A run that is resumed, and a branch of it, must keep the settings on which its weights, its order
// of data and the state of its optimizer depend. While trials of random restart are compared with
// each other, the settings on which their losses depend must stay too.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct SettingChange {
  // The key has dots, as after --set: "optimizer.lr".
  std::string key;
  nlohmann::ordered_json was, is;
  std::string unused;  // why the setting has no effect; empty when it has one
};
// Returns every setting whose value differs, in the order of docs/config.md.
std::vector<SettingChange> changed_settings(const Config& before, const Config& after);
// A person resumes a run, whose config is `run`, with an edited config file, which is `given`. The
// run keeps its own settings. Returns the settings of `given` that the person may expect to hold:
// they differ from the run's, are no defaults, and would have an effect. Four are left out: name,
// run_dir, init_from, and a device "cuda" that the run has as "cuda:0".
std::vector<SettingChange> overlooked_settings(const Config& run, const Config& given);
// Returns the field "changed" of an event: [{"key", "was", "is"}].
nlohmann::ordered_json changes_json(const std::vector<SettingChange>& changes);

// Returns the keys, of settings or of whole sections ("model"), that differ between the two configs
// although a run must keep them when it is resumed. It is empty when the change is allowed.
std::vector<std::string> changed_for_good(const Config& before, const Config& after);
// Returns the config that a run is resumed with: the one in its folder, with `overrides`, each
// KEY=VALUE as typed after --set; relative paths become absolute. `before` is the folder's config
// without them. Throws Error(kConfig) when an override is wrong, or changes run_dir or a setting
// that the run must keep (changed_for_good), and the errors of read_run_config.
Config changed_config(const RunFolder& run, const Config& before,
                      const std::vector<std::string>& overrides);
// Throws Error(kConfig) when the trials of the run are still compared with each other and the
// change would affect the losses of those that are still to come.
void refuse_unlike_trials(const RunFolder& run, const Config& before, const Config& after);

}  // namespace lmtrain
