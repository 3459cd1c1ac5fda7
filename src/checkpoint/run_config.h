// The config.json of a run holds its settings and its identity, sealed with a digest
// (config/digest.h) that every reader checks. Each config that is written is also kept in
// config_history/, so that no former one is lost.
//
// config_history/0002_step_00001000.json is the second config, in force from step 1000 on. It is
// written before config.json is replaced, so after a kill between the two the newest file there may
// never have come into force.
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

// Throws Error(kCheckpoint) when the digest does not fit or is gone, or the
// file belongs to another run; the message names each value that differs from the config kept in
// config_history/. The same error is thrown when the text is no config. Throws Error(kUsage) when
// there is no config.json. The identity comes from the files; run.identity() is not read.
RunConfig read_run_config(const RunFolder& run);
// Returns the same config with `overrides` applied, each KEY=VALUE as typed after --set. Throws as
// above, and Error(kConfig) when an override, or the text, is wrong.
Config read_run_config(const RunFolder& run, const std::vector<std::string>& overrides);

// Returns whether config.json in the folder describes a model of transformers: it names a model
// type.
bool is_model_folder(const std::filesystem::path& folder);

// Returns whether the folder holds a run: a config.json that is not that of a model or a
// checkpoint.
bool is_run_folder(const std::filesystem::path& folder);
// Names the runs in the folder for a message that ends with them, as arguments of `command`: "; 2
// runs in it: lmtrain eval runs/a, lmtrain eval runs/b"; without a command by their paths alone.
// Empty where there are none among the first thousand names, or the path is no folder.
std::string name_runs_in(const std::filesystem::path& folder, const std::string& command);

// Call this when config.json is gone or describes a model. Throws Error(kCheckpoint) with the
// command that puts it back, if a run has begun in the folder: if the folder has events, and a
// whole config in config_history/. Returns otherwise.
void require_config_of_run(const RunFolder& run);

// Writes `config`, in force from `step` on, with run.identity(), as config.json, and before that in
// config_history/, unless the newest file there has the same text. The folder's lock must be held.
// Throws Error(kIo).
void write_run_config(const RunFolder& run, const Config& config, int64_t step);

}  // namespace lmtrain
