// Says which figures of the runs a report draws, and how.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// kFree: the axis spans the values. kFromZero: it begins at 0. kPowersOfTwo: it is logarithmic,
// with powers of two as ticks.
enum class ChartScale { kFree, kFromZero, kPowersOfTwo };

// The key of the chart that also shows the forecast.
inline constexpr const char* kExpectedKey = "eval_loss";

struct Chart {
  std::string key;          // in metrics.jsonl
  bool evaluation = false;  // true: a figure of evaluations; false: of updates
  std::string title;
  std::string unit;  // the figure and its unit
  ChartScale scale = ChartScale::kFree;
  bool is_loss = false;      // a reader may choose a logarithmic axis
  bool is_smoothed = false;  // smoothed, since single updates are noisy
  bool has_events = false;   // marks events
  bool is_wide = false;      // as wide as the page
};

// Returns the charts for which a run has a finite value, the most important first.
std::vector<Chart> charts_of(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
