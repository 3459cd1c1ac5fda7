// metrics.jsonl held against the state that a run goes on from: line n of the updates is update n.
//
// The lines after the state are cut off: those updates are trained again. Before it, lines that are
// no lines of metrics, and updates out of their order, are taken out; the file as it was is kept
// beside it. A changed digit cannot be noticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "run/metrics.h"

namespace lmtrain {

struct MetricsDamage {
  std::vector<std::pair<int64_t, int64_t>> lost;  // first and last of each run of updates
  int64_t dropped_lines = 0;
  bool missing = false;        // there is no such file
  std::filesystem::path copy;  // of the file as it was; empty: nothing was taken out

  bool any() const { return !lost.empty() || dropped_lines > 0; }
};

// Cuts and mends the file. Error(kIo) or Error(kData) when it cannot be read or is no file.
MetricsDamage mend_metrics(const std::filesystem::path& file, const TrainingState& state);
// For people.
std::string describe(const MetricsDamage& damage, const std::filesystem::path& file);
// As a warning and as an event, unless the run's last event of this kind told the same.
void report_damage(const MetricsDamage& damage, const RunFolder& run, const TrainingState& state,
                   RunLog& log);

// For a run that begins at step 0: says what a run before it has left in the folder, if anything,
// and moves its metrics.jsonl to metrics.jsonl.before-restart, unless the one there is longer.
// Returns what was said; empty: nothing was left.
std::string put_metrics_aside(const RunFolder& run);
std::filesystem::path metrics_aside(const RunFolder& run);

}  // namespace lmtrain
