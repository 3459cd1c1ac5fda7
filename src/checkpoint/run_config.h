// Reads and writes the config.json of a run, which holds its settings and its identity. A digest
// (config/digest.h) seals the file, and every reader checks it. config_history/ keeps a copy of
// each config of the run.
//
// config_history/0002_step_00001000.json is the second config, valid from step 1000 on. The copy is
// written before config.json. After a kill between the two, the newest copy was never in use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct RunConfig {
  Config config;
  RunIdentity identity;
};

// Returns the config and identity of a run, from its files; does not read run.identity(). Throws
// Error(kIo), and:
//   Error(kCheckpoint)  the digest is missing or wrong, the file belongs to another run, or the
//                       text is no config; the message names each value that differs from the
//                       config kept in config_history/
//   Error(kUsage)       there is no config.json
RunConfig read_run_config(const RunFolder& run);
// Returns the same config with `overrides` applied, each KEY=VALUE as typed after --set. Throws the
// same errors, but Error(kConfig) if an override, or the text, is wrong.
Config read_run_config(const RunFolder& run, const std::vector<std::string>& overrides);

// Returns whether config.json in the folder describes a model of transformers: it has the key
// model_type or architectures.
bool is_model_folder(const std::filesystem::path& folder);

// Returns whether the folder holds a run: it has a config.json, and is neither a model folder nor a
// checkpoint.
bool is_run_folder(const std::filesystem::path& folder);
// Returns the end of a message that names the runs in the folder, five at most: "; 2 runs in it:
// lmtrain eval runs/a, lmtrain eval runs/b"; without a `command` only the paths. Looks at the first
// thousand names. Empty if no run is among them, or the path is no folder.
std::string name_runs_in(const std::filesystem::path& folder, const std::string& command);

// Call this if config.json is missing or describes a model. Throws Error(kCheckpoint) if a run has
// begun in the folder: it has events, and a valid config in config_history/. The message has the
// command that puts config.json back.
void require_config_of_run(const RunFolder& run);

// Writes `config`, valid from `step` on, with run.identity(): first into config_history/, unless
// the newest file there has the same text, and then as config.json. The folder's lock must be held.
// Throws Error(kIo).
void write_run_config(const RunFolder& run, const Config& config, int64_t step);

}  // namespace lmtrain
