// Draws a chart as SVG, for readers without JavaScript and until the page's own code has drawn it
// anew: against tokens, every run, without smoothing.
#pragma once

#include <string>
#include <vector>

#include "report/charts.h"

namespace lmtrain {

// Colours and dashes of run i are those of the classes "c0" to "c5" (i mod kRunColours) and "d0" to
// "d3" of page.css.
inline constexpr size_t kRunColours = 6, kRunDashes = 4;
std::string run_classes(size_t run);

std::string static_chart(const Chart& chart, const std::vector<RunRecord>& runs);

}  // namespace lmtrain
