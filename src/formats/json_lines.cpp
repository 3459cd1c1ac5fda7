#include "formats/json_lines.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "formats/strict_json.h"

namespace lmtrain {

using Visit = std::function<void(const nlohmann::json& line, uint64_t end)>;

void for_each_json_line(const std::filesystem::path& path, const Visit& visit) {
  for_each_json_line_with(path, "", visit);
}

void for_each_json_line_with(const std::filesystem::path& path, std::string_view text,
                             const Visit& visit) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  std::string_view rest = file.bytes();
  while (!rest.empty()) {
    // Much faster than find() where the first byte of the text is everywhere.
    const void* match = ::memmem(rest.data(), rest.size(), text.data(), text.size());
    if (match == nullptr) return;
    const auto found = static_cast<size_t>(static_cast<const char*>(match) - rest.data());
    const size_t newline = rest.find('\n', found);
    if (newline == std::string_view::npos) return;
    const size_t begin = rest.substr(0, found).rfind('\n') + 1;  // 0 without a newline
    const std::string_view line_text = rest.substr(begin, newline - begin);
    rest.remove_prefix(newline + 1);
    nlohmann::json line;
    try {
      line = parse_strict_json(line_text, {});
    } catch (const Error&) {
      continue;
    }
    if (line.is_object()) visit(line, file.bytes().size() - rest.size());
  }
}

std::optional<double> number_at(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace lmtrain
