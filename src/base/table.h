// These functions make titled blocks of aligned columns, as `plan` and `bench` print them for
// people. A title has at most 12 bytes; block() cuts a longer one.
#pragma once

#include <string>
#include <vector>

namespace lmtrain {

using Table = std::vector<std::vector<std::string>>;

// Returns one indented line for each row, the first with the title; each ends in a newline. Rows
// may differ in their number of cells. A column is as wide as its widest cell. Cells are flush
// right, but the last cell of a row is flush left unless it begins with a digit; it must not be
// empty.
std::string block(const std::string& title, const Table& rows);
// Returns a block with one text, broken after commas where a line, its indentation included, would
// be wider than kTextColumns.
inline constexpr size_t kTextColumns = 80;
std::string line(const std::string& title, const std::string& text);

}  // namespace lmtrain
