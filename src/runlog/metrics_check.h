// Compares metrics.jsonl with the state that a run goes on from: it must hold one line for each
// update up to state.step, in order.
//
// Lines of later steps are cut off, since those updates are trained again. Among the others, lines
// that are no lines of metrics, and updates out of order, are taken out; then the file as it was is
// kept beside it. A changed digit cannot be noticed.
//
// A run of millions of steps has a file of gigabytes. Only its end is looked at, so that a resume
// takes the same time whatever the length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "runlog/metrics.h"

namespace lmtrain {

struct MetricsDamage {
  std::vector<std::pair<int64_t, int64_t>> lost;  // gaps in the updates: first and last of each
  int64_t dropped_lines = 0;
  bool missing = false;        // there is no such file, which at step 0 is no damage
  std::filesystem::path copy;  // of the file as it was; empty: nothing was taken out

  bool any() const { return !lost.empty() || dropped_lines > 0; }
};

// The part of the file that is looked at, in bytes: the lines of some 100,000 updates.
inline constexpr uint64_t kExaminedMetrics = uint64_t{16} << 20;

// Cuts and mends the file, and returns what was wrong with it. It looks at the last `examined`
// bytes and takes what lies before them as it is; where these all are of steps after the state, it
// looks at more. Throws Error(kIo) or Error(kData) when the file cannot be read or is no file.
MetricsDamage mend_metrics(const std::filesystem::path& file, const TrainingState& state,
                           uint64_t examined = kExaminedMetrics);
// Returns a text for people that says what is wrong with `file`. Requires damage.any() or
// damage.missing.
std::string describe(const MetricsDamage& damage, const std::filesystem::path& file);
// Reports damage, if there is any, as a warning and as an event. Updates that are lost without a
// dropped line are not reported again when the run's last event of this kind names the same ones.
void report_damage(const MetricsDamage& damage, const RunFolder& run, const TrainingState& state,
                   RunLog& log);

// Serves a run that begins again at `first_step`, since it has no checkpoint any more, in a folder
// where later updates are logged: moves its metrics.jsonl to metrics_aside(), unless the file there
// is longer. Returns a text for people that says how far the run had come; empty: there are no such
// updates.
std::string put_metrics_aside(const RunFolder& run, int64_t first_step = 0);
// Returns the path of metrics.jsonl.before-restart.
std::filesystem::path metrics_aside(const RunFolder& run);

}  // namespace lmtrain
