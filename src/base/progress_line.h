// A line of progress consists of parts; where the terminal is narrow, some are left out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

struct LinePart {
  std::string text;
  int drop = 0;  // the part with the highest number is left out first; 0: never
};

// Returns all parts, two spaces apart.
std::string whole_line(const std::vector<LinePart>& parts);
// Leaves out parts, the highest `drop` first, until the line has at most `columns` bytes. If that
// is not enough, the line is cut off there.
std::string fitted_line(std::vector<LinePart> parts, size_t columns);

// Breaks the lines of `text` that have more than `columns` columns, before a word; the rest of a
// line is indented as its text is. Two kinds of line stay whole, so that they can be copied from
// the terminal: those with a command (`lmtrain ...`), and a word that is longer than a line.
std::string wrapped_lines(std::string_view text, size_t columns);

}  // namespace lmtrain
