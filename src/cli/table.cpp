#include "cli/table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lmtrain {
namespace {

constexpr size_t kIndent = 13;

}  // namespace

std::string block(const std::string& title, const Table& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = text.empty() ? title : "";
    line.resize(kIndent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const bool words = i + 1 == row.size() && std::isdigit(row[i].front()) == 0;
      line += (words ? "" : std::string(widths[i] - row[i].size(), ' ')) + row[i];
    }
    text += line + "\n";
  }
  return text;
}

std::string line(const std::string& title, const std::string& text) {
  std::string lines = title;
  lines.resize(kIndent, ' ');
  size_t column = kIndent;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = rest.find(", ");
    const size_t size = comma == std::string_view::npos ? rest.size() : comma + 1;
    // Its space goes to the next part, or is lost with the end of the line.
    if (column > kIndent && column + size > kTextColumns) {
      lines += "\n" + std::string(kIndent, ' ');
      column = kIndent;
      rest.remove_prefix(1);
      continue;
    }
    lines += rest.substr(0, size);
    column += size;
    rest.remove_prefix(size);
  }
  return lines + "\n";
}

}  // namespace lmtrain
