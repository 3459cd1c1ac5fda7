// Compares two configs of a run, and refuses changes that the run cannot take.
//
// A resume, and a branch, must keep the settings on which weights, order of data and optimizer
// state depend. While a run still compares trials of random restart, it must also keep the settings
// on which their losses depend.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct SettingChange {
  std::string key;  // with dots, as after --set: "optimizer.lr"
  nlohmann::ordered_json was, is;
  std::string unused;  // why the setting has no effect; empty when it has one
};
// Returns whether a setting decides what an update does to the weights: the optimizer and its
// rates, clipping, the loss, the precision.
bool shapes_updates(const std::string& key);
// Returns every setting whose value differs, in the order of docs/config.md.
std::vector<SettingChange> changed_settings(const Config& before, const Config& after);
// Call it when a person resumes the run with the config `run` by an edited config file `given`; the
// run keeps its own settings. Returns the settings of `given` that the person may wrongly expect to
// hold: they differ from the run's, are no defaults, and would have an effect. Leaves out name,
// run_dir, init_from, a device "cuda" that the run has as "cuda:N", and what resolving replaced:
// train.time, model.size, and train.tokens beside train.time.
std::vector<SettingChange> overlooked_settings(const Config& run, const Config& given);
// Returns the value of an event's field "changed": [{"key", "was", "is"}].
nlohmann::ordered_json changes_json(const std::vector<SettingChange>& changes);

// Returns the keys that differ although a resume must keep them: of settings, or of whole sections
// ("model"). Empty if the change is allowed.
std::vector<std::string> changed_for_good(const Config& before, const Config& after);
// Returns the config of a resume: the config in the run's folder with `overrides`, each KEY=VALUE
// as typed after --set, and with absolute paths. An object for a section changes the settings that
// it names alone (overrides_by_setting() of config/parse.h). `before` is the folder's config
// without `overrides`. Throws the errors of read_run_config, and:
//   Error(kConfig)  an override is wrong, leaves a value to the recipe ("auto"), or changes run_dir
//                   or a key of changed_for_good()
Config changed_config(const RunFolder& run, const Config& before,
                      const std::vector<std::string>& overrides);
// Returns overrides_by_setting() without the settings that were resolved when the run began:
// train.time, model.size, and "auto" or null where the recipe, the tokenizer or the model gave the
// value. A job queue types them again at each start; the run keeps what they became.
std::vector<std::string> overrides_to_go_on(const std::vector<std::string>& overrides);
// Throws Error(kConfig) if the run still has to compare its trials, and the change would affect the
// losses of trials to come.
void refuse_unlike_trials(const RunFolder& run, const Config& before, const Config& after);

}  // namespace lmtrain
