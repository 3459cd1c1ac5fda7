// These functions make titled blocks of aligned columns, as `plan` and `bench` print them for
// people. A title has at most 12 bytes.
#pragma once

#include <string>
#include <vector>

namespace lmtrain {

using Table = std::vector<std::vector<std::string>>;

// Returns one indented line for each row, the first with the title; each ends in a newline. Rows
// may differ in their number of cells. A column is as wide as its widest cell. Cells are flush
// right, except that the last cell of a row, which must not be empty, is flush left unless it
// begins with a digit.
std::string block(const std::string& title, const Table& rows);
// Returns a block with one text. A line that would be wider than kTextColumns bytes, its
// indentation included, is broken after a comma.
inline constexpr size_t kTextColumns = 80;
std::string line(const std::string& title, const std::string& text);

}  // namespace lmtrain
