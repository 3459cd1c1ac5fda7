// Titled blocks of aligned columns, as `plan` and `bench` print them for people.
#pragma once

#include <string>
#include <vector>

namespace lmtrain {

using Table = std::vector<std::vector<std::string>>;

// Columns as wide as they need, numbers flush right and a last column of words flush left,
// indented; the first line of the block has its title.
std::string block(const std::string& title, const Table& rows);
// A block of one text, broken after commas where it would be wider than kTextColumns.
inline constexpr size_t kTextColumns = 80;
std::string line(const std::string& title, const std::string& text);

}  // namespace lmtrain
