// The charts of a report: which figures of the runs are drawn, and how.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// kFree: the axis spans the values. kFromZero: it begins at 0. kPowersOfTwo: it is logarithmic,
// with powers of two as ticks.
enum class ChartScale { kFree, kFromZero, kPowersOfTwo };

// The chart that also shows what was forecast.
inline constexpr const char* kExpectedKey = "eval_loss";

struct Chart {
  std::string key;  // in metrics.jsonl
  bool evaluation;  // the key is of evaluations, else of updates
  std::string title;
  std::string unit;  // what is drawn, in which unit
  ChartScale scale = ChartScale::kFree;
  bool is_loss = false;      // may be drawn on a logarithmic axis
  bool is_smoothed = false;  // noise of single updates hides its course
  bool has_events = false;   // events are marked on it
  bool is_wide = false;      // as wide as the page
};

// Returns the charts for which some run has a finite value, the most important first.
std::vector<Chart> charts_of(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
