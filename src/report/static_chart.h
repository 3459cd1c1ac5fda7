// Draws a chart as SVG, for readers without JavaScript and until the page's own code has drawn it
// anew: against tokens, every run, without smoothing.
#pragma once

#include <string>
#include <vector>

#include "report/charts.h"

namespace lmtrain {

// Ticks of an axis and the numbers beside them. `page_axis.js` does the same in the page.

// Returns multiples of 1, 2 or 5 times a power of ten inside [low, high], about `count` of them.
// Empty unless both ends are finite and low < high.
std::vector<double> linear_ticks(double low, double high, int count);
// Returns the powers of two inside [low, high]; every 2nd, 4th ... where there are more than
// `count`. Empty unless both ends are finite and 0 < low <= high.
std::vector<double> power_ticks(double low, double high, int count);

// Returns a tick's number, as short as keeps ticks `spacing` apart different: "2.5M", "0.001".
std::string tick_text(double value, double spacing);

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
