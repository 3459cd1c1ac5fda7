// Draws a chart as SVG: every run against tokens, without smoothing. Readers without JavaScript see
// it, and others until the page's script has drawn it anew.
#pragma once

#include <string>
#include <vector>

#include "report/charts.h"

namespace lmtrain {

// page_axis.js computes the same ticks and texts.

// Returns about `count` multiples of 1, 2 or 5 times a power of ten inside [low, high]. Empty
// unless both ends are finite and low < high.
std::vector<double> linear_ticks(double low, double high, int count);
// Returns the powers of two inside [low, high]; every 2nd, 4th ... if there are more than `count`.
// Empty unless both ends are finite and 0 < low <= high.
std::vector<double> power_ticks(double low, double high, int count);

// Returns the shortest text for `value` that differs between ticks `spacing` apart: "2.5M",
// "0.001".
std::string tick_text(double value, double spacing);

inline constexpr size_t kRunColours = 6, kRunDashes = 4;
// Returns the classes of page.css for run number `run`: its colour, "c0" to "c5" (`run` mod
// kRunColours), and its dashes, "d0" to "d3", which change after all colours: "c1 d0" for run 1,
// "c1 d1" for run 7.
std::string run_classes(size_t run);

// Returns an <svg> element with a line for each run that has the figure of the chart.
std::string static_chart(const Chart& chart, const std::vector<RunRecord>& runs);

// Returns an SVG file that needs no page: training loss and held-out loss of a run against tokens.
// Empty if the run has neither.
std::string loss_curve_file(const RunRecord& run);

}  // namespace lmtrain
