#include "formats/json_lines.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/files/file.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Visit = std::function<void(const nlohmann::json& line, uint64_t end)>;

void visit_line(std::string_view text, uint64_t end, const Visit& visit) {
  nlohmann::json line;
  try {
    line = parse_strict_json(text, {});
  } catch (const Error&) {
    return;
  }
  if (line.is_object()) visit(line, end);
}

}  // namespace

void for_each_json_line(const std::filesystem::path& path, const Visit& visit) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  size_t begin = 0;
  for (;;) {
    const size_t newline = bytes.find('\n', begin);
    if (newline == std::string_view::npos) return;
    visit_line(bytes.substr(begin, newline - begin), newline + 1, visit);
    begin = newline + 1;
  }
}

void for_each_json_line_with(const std::filesystem::path& path, std::string_view text,
                             const Visit& visit) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  for (size_t begin = 0; begin < bytes.size();) {
    // Much faster than find() where, as here, the first byte of the text is everywhere.
    const void* match =
        ::memmem(bytes.data() + begin, bytes.size() - begin, text.data(), text.size());
    if (match == nullptr) return;
    const auto found = static_cast<size_t>(static_cast<const char*>(match) - bytes.data());
    const size_t newline = bytes.find('\n', found);
    if (newline == std::string_view::npos) return;
    const size_t before = found == 0 ? std::string_view::npos : bytes.rfind('\n', found - 1);
    const size_t line = before == std::string_view::npos ? 0 : before + 1;
    visit_line(bytes.substr(line, newline - line), newline + 1, visit);
    begin = newline + 1;
  }
}

std::optional<double> number_at(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace lmtrain
