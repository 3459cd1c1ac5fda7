// Ticks of an axis and the numbers beside them. `page_axis.js` does the same in the page.
#pragma once

#include <string>
#include <vector>

namespace lmtrain {

// Returns multiples of 1, 2 or 5 times a power of ten inside [low, high], about `count` of them.
// Empty unless both ends are finite and low < high.
std::vector<double> linear_ticks(double low, double high, int count);
// Returns the powers of two inside [low, high]; every 2nd, 4th ... where there are more than
// `count`. Empty unless both ends are finite and 0 < low <= high.
std::vector<double> power_ticks(double low, double high, int count);

// Returns a tick's number, as short as keeps ticks `spacing` apart different: "2.5M", "0.001".
std::string tick_text(double value, double spacing);

}  // namespace lmtrain
