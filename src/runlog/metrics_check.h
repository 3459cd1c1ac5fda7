// Compares metrics.jsonl with the state that a run goes on from: it must hold one line for each
// update up to state.step, in order.
//
// Lines of later steps are cut off, since those updates are trained again. Lines that are not
// metrics, and updates out of order, are removed; a copy of the old file is then kept beside it. A
// changed digit is not noticed.
//
// A run of millions of steps has a file of gigabytes. Only its end is read, so that a resume takes
// the same time for any length.
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
  std::vector<std::pair<int64_t, int64_t>> lost;  // gaps: first and last missing update
  int64_t dropped_lines = 0;
  bool missing = false;        // there is no file, which at step 0 is no damage
  std::filesystem::path copy;  // the copy of the old file; empty if no line was removed

  bool any() const { return !lost.empty() || dropped_lines > 0; }
};

// The size of the end that is read, in bytes: the lines of some 100,000 updates.
inline constexpr uint64_t kExaminedMetrics = uint64_t{16} << 20;

// Cuts and mends the file, and returns what was wrong with it. It reads the last `examined` bytes,
// or more if these begin after state.step, and does not check earlier bytes. Throws Error(kIo) or
// Error(kData) when the file cannot be read or is no file.
MetricsDamage mend_metrics(const std::filesystem::path& file, const TrainingState& state,
                           uint64_t examined = kExaminedMetrics);
// Returns a text for people that describes the damage of `file`. Requires damage.any() or
// damage.missing.
std::string describe(const MetricsDamage& damage, const std::filesystem::path& file);
// Reports damage, if there is any, as a warning and an event. It does not repeat an event: if no
// line was dropped and the last such event names the same lost updates, it does nothing.
void report_damage(const MetricsDamage& damage, const RunFolder& run, const TrainingState& state,
                   LogFiles& log);

// Call this when a run has no checkpoint any more and begins again at `first_step`. A metrics.jsonl
// with later updates is moved to metrics_aside(), unless the file there is longer. Returns a text
// for people that says how far the run had come; empty if there are no later updates.
std::string put_metrics_aside(const RunFolder& run, int64_t first_step = 0);
// Returns the path of metrics.jsonl.before-restart.
std::filesystem::path metrics_aside(const RunFolder& run);

}  // namespace lmtrain
