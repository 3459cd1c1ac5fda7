// Reads and writes the config.json of a run, which holds its settings and its identity. A digest
// (config/digest.h) seals the file, and every reader checks it. Each config that is written is also
// kept in config_history/, so that no earlier config is lost.
//
// config_history/0002_step_00001000.json is the second config, valid from step 1000 on. It is
// written before config.json is replaced. So the newest file there may never have been used, if the
// process was killed between the two.
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

// Returns the config and identity of a run, from its files; run.identity() is not read. Throws:
//   Error(kCheckpoint)  the digest is missing or wrong, the file belongs to another run, or the
//                       text is no config; the message names each value that differs from the
//                       config kept in config_history/
//   Error(kUsage)       there is no config.json
RunConfig read_run_config(const RunFolder& run);
// Returns the same config with `overrides` applied, each KEY=VALUE as typed after --set. Throws the
// same errors, and Error(kConfig) when an override, or the text, is wrong.
Config read_run_config(const RunFolder& run, const std::vector<std::string>& overrides);

// Returns whether config.json in the folder describes a model of transformers: it names a model
// type.
bool is_model_folder(const std::filesystem::path& folder);

// Returns whether the folder holds a run: it has a config.json, and is neither a model folder nor a
// checkpoint.
bool is_run_folder(const std::filesystem::path& folder);
// Returns the end of a message that names the runs in the folder: "; 2 runs in it: lmtrain eval
// runs/a, lmtrain eval runs/b". Without a `command` it has only the paths. It looks at the first
// thousand names. Empty if there is no run among them, or the path is no folder.
std::string name_runs_in(const std::filesystem::path& folder, const std::string& command);

// Call this when config.json is gone or describes a model. Throws Error(kCheckpoint) if a run has
// begun in the folder: it has events, and a whole config in config_history/. The message has the
// command that puts config.json back.
void require_config_of_run(const RunFolder& run);

// Writes `config`, valid from `step` on, with run.identity(). It writes config_history/ first,
// unless the newest file there has the same text, and then config.json. The folder's lock must be
// held. Throws Error(kIo).
void write_run_config(const RunFolder& run, const Config& config, int64_t step);

}  // namespace lmtrain
