// A line of progress that gives up parts where the terminal is narrow. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lmtrain {

struct LinePart {
  std::string text;
  int drop = 0;  // the part with the highest number goes first; 0: never
};

// All parts, two spaces apart.
std::string whole_line(const std::vector<LinePart>& parts);
// The same without the parts that must go for it to have at most `columns` bytes; cut off there
// where that is not enough.
std::string fitted_line(std::vector<LinePart> parts, size_t columns);

}  // namespace lmtrain
