// Mends metrics.jsonl for the state that a run goes on from: it must hold one line for each update
// up to state.step, in order.
//
// mend_metrics() cuts off lines of later steps, since the run trains them again. It removes lines
// that are not metrics, and updates out of order, and then keeps a copy of the old file beside the
// new one. It does not notice a changed digit.
//
// It reads only the end of the file, which may have gigabytes, so that a resume takes the same time
// for any length.
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
  bool missing = false;        // there is no file; no damage at step 0
  std::filesystem::path copy;  // the copy of the old file; empty if no line was removed

  bool any() const { return !lost.empty() || dropped_lines > 0; }
};

// How many bytes at the end mend_metrics() reads: the lines of some 100,000 updates.
inline constexpr uint64_t kExaminedMetrics = uint64_t{16} << 20;

// Cuts and mends the file, and returns its damage. Reads the last `examined` bytes, or more if
// these begin after state.step, and does not check earlier bytes. Throws Error(kIo), and
// Error(kData) if the path is no file.
MetricsDamage mend_metrics(const std::filesystem::path& file, const TrainingState& state,
                           uint64_t examined = kExaminedMetrics);
// Returns a text for people that describes the damage of `file`. Requires damage.any() or
// damage.missing.
std::string describe(const MetricsDamage& damage, const std::filesystem::path& file);
// Reports damage, if there is any, as a warning and an event. Does nothing if no line was dropped
// and the last such event names the same lost updates.
void report_damage(const MetricsDamage& damage, const RunFolder& run, const TrainingState& state,
                   LogFiles& log);

// Call this if a run has no checkpoint any more and begins again at `first_step`. Moves a
// metrics.jsonl with later updates to metrics_aside(), unless the file there is longer. Returns a
// text for people on how far the run had come; empty if there are no later updates. Throws
// Error(kIo).
std::string put_metrics_aside(const RunFolder& run, int64_t first_step = 0);
// Returns the path of metrics.jsonl.before-restart.
std::filesystem::path metrics_aside(const RunFolder& run);

}  // namespace lmtrain
