#include "cli/table.h"

#include <algorithm>
#include <cctype>

namespace lmtrain {

std::string block(const std::string& title, const Table& rows) {
  constexpr size_t kIndent = 13;
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
  return block(title, {{text}});
}

}  // namespace lmtrain
