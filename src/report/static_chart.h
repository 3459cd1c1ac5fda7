// Draws a chart as SVG, for readers without JavaScript and until the page's own code has drawn it
// anew: against tokens, every run, without smoothing.
#pragma once

#include <string>
#include <vector>

#include "report/charts.h"

namespace lmtrain {

inline constexpr size_t kRunColours = 6, kRunDashes = 4;
// Returns the classes of page.css that give a run its colour, "c0" to "c5" (`run` mod kRunColours),
// and its dashes, "d0" to "d3", which change when all colours were used: "c1 d0" for run 1 and
// "c1 d1" for run 7.
std::string run_classes(size_t run);

// Returns an <svg> element with a line for each run that has the chart's figure.
std::string static_chart(const Chart& chart, const std::vector<RunRecord>& runs);

// Returns an SVG file that needs no page around it: training loss and held-out loss of a run
// against tokens. Empty where the run has neither.
std::string loss_curve_file(const RunRecord& run);

}  // namespace lmtrain
