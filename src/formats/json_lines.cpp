#include "formats/json_lines.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/files/file.h"
#include "formats/strict_json.h"

namespace lmtrain {

void for_each_json_line(
    const std::filesystem::path& path,
    const std::function<void(const nlohmann::json& line, uint64_t end)>& visit) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  size_t begin = 0;
  for (;;) {
    const size_t newline = bytes.find('\n', begin);
    if (newline == std::string_view::npos) return;
    nlohmann::json line;
    try {
      line = parse_strict_json(bytes.substr(begin, newline - begin), {});
    } catch (const Error&) {
      line = nullptr;
    }
    begin = newline + 1;
    if (line.is_object()) visit(line, begin);
  }
}

uint64_t json_lines_end_of_step(const std::filesystem::path& path, int64_t step) {
  uint64_t cut = 0;
  for_each_json_line(path, [&](const nlohmann::json& line, uint64_t end) {
    const auto found = line.find("step");
    if (found != line.end() && found->is_number_integer() && found->get<int64_t>() <= step) {
      cut = end;
    }
  });
  return cut;
}

std::optional<double> number_at(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace lmtrain
