// The config.json of a run: its settings and its identity, sealed with a digest (config/digest.h),
// checked by every reader, and kept in config_history/ as often as it was written, so that no
// former one is lost.
//
// config_history/0002_step_00001000.json is the second config, in force from that step on. It is
// written before config.json is replaced, so a kill between the two leaves one there that never
// came into force.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct RunConfig {
  Config config;
  bool sealed = false;  // false: an earlier lmtrain wrote it, without a digest
  RunIdentity identity;
};

// Error(kCheckpoint) when the digest does not fit, or is gone although the run had one, or the file
// is that of another run, naming each value that the kept config has otherwise; also when it is no
// config. Error(kUsage) when there is none.
RunConfig read_run_config(const RunFolder& run);
// The same with `overrides` as typed after --set; what is wrong with them is Error(kConfig).
Config read_run_config(const RunFolder& run, const std::vector<std::string>& overrides);

// Writes the config that is in force from `step` on, with the identity of `run`, and keeps it. The
// folder's lock must be held.
void write_run_config(const RunFolder& run, const Config& config, int64_t step);

}  // namespace lmtrain
