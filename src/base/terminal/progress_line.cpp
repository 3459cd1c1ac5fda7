#include "base/terminal/progress_line.h"

#include <algorithm>

#include "base/text.h"

namespace lmtrain {

std::string whole_line(const std::vector<LinePart>& parts) {
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const LinePart& part : parts) texts.push_back(part.text);
  return join(texts, "  ");
}

std::string fitted_line(std::vector<LinePart> parts, size_t columns) {
  const auto less = [](const LinePart& a, const LinePart& b) { return a.drop < b.drop; };
  while (!parts.empty() && whole_line(parts).size() > columns) {
    const auto next = std::max_element(parts.begin(), parts.end(), less);
    if (next->drop == 0) break;
    parts.erase(next);
  }
  return whole_line(parts).substr(0, columns);
}

}  // namespace lmtrain
