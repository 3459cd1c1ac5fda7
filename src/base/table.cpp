#include "base/table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/text.h"

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
      const bool words =
          i + 1 == row.size() && std::isdigit(static_cast<unsigned char>(row[i].front())) == 0;
      line += (words ? "" : std::string(widths[i] - row[i].size(), ' ')) + row[i];
    }
    text += line + "\n";
  }
  return text;
}

std::string line(const std::string& title, const std::string& text) {
  std::vector<std::string> lines(1);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = rest.find(", ");
    const size_t size = comma == std::string_view::npos ? rest.size() : comma + 1;
    // The space before it is lost with the end of the line.
    if (!lines.back().empty() && kIndent + lines.back().size() + size > kTextColumns) {
      lines.emplace_back();
      rest.remove_prefix(1);
      continue;
    }
    lines.back().append(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  const std::string blank(kIndent, ' ');
  return str(title, blank.substr(std::min(title.size(), blank.size())), join(lines, "\n" + blank),
             "\n");
}

}  // namespace lmtrain
