// These functions make titled blocks of aligned columns, as `plan` and `bench` print them for
// people. A title has at most 12 bytes; block() cuts a longer one.
#pragma once

#include <string>
#include <vector>

namespace lmtrain {

using Table = std::vector<std::vector<std::string>>;

// Returns indented lines, one for each row, the first with the title; each ends in a newline. Rows
// may have unlike numbers of cells. Columns are as wide as they need to be, and flush right; a last
// cell that does not begin with a digit is flush left. Requires that the last cell of each row is
// not empty.
std::string block(const std::string& title, const Table& rows);
// Returns a block with one text, broken after commas where a line, its indentation included, would
// be wider than kTextColumns.
inline constexpr size_t kTextColumns = 80;
std::string line(const std::string& title, const std::string& text);

}  // namespace lmtrain
