#include "prepare/source_names.h"

#include <filesystem>
#include <map>
#include <set>

#include "base/examine.h"
#include "base/text.h"
#include "config/set_name.h"
#include "text/glob.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The characters that a name may have; every run of others becomes one "_". Wildcards are left out,
// and so are ".", "_" and "-" at both ends: "*.py" is "py".
std::string readable(const std::string& part) {
  std::string name;
  for (const char c : part) {
    if (std::string_view("*?[]!").find(c) != std::string_view::npos) continue;
    if (is_set_character(c)) {
      name += c;
    } else if (!name.ends_with('_')) {
      name += '_';
    }
  }
  const auto is_edge = [](char c) { return c == '.' || c == '_' || c == '-'; };
  while (!name.empty() && is_edge(name.back())) name.pop_back();
  while (!name.empty() && is_edge(name.front())) name.erase(0, 1);
  return name;
}

// A path as the parts that names are made of.
struct NameParts {
  std::vector<std::string> parts;
  size_t last_plain = 0;  // index of the last part without a wildcard

  // Returns the name of this level: 0 is the shortest. Beyond the last level it stays the same.
  std::string name(size_t level) const {
    if (parts.empty()) return "source";
    const size_t before = level < 2 ? 0 : level - 1;
    const size_t first = last_plain - std::min(before, last_plain);
    const size_t end = level == 0 ? last_plain + 1 : parts.size();
    return join({parts.begin() + static_cast<std::ptrdiff_t>(first),
                 parts.begin() + static_cast<std::ptrdiff_t>(end)},
                ".");
  }
  size_t levels() const { return last_plain + 2; }
};

NameParts parts_of(const std::string& path) {
  NameParts result;
  for (const fs::path& part : absolute_path(path)) {
    const std::string name = readable(part.string());
    if (name.empty()) continue;
    if (!has_wildcard(part.string())) result.last_plain = result.parts.size();
    result.parts.push_back(name);
  }
  return result;
}

}  // namespace

std::vector<std::string> source_names(const std::vector<DataSourceConfig>& sources) {
  std::vector<NameParts> parts;
  size_t levels = 0;
  for (const DataSourceConfig& source : sources) {
    parts.push_back(parts_of(source.path));
    levels = std::max(levels, parts.back().levels());
  }
  std::vector<std::string> names(sources.size());
  std::set<std::string> taken;
  for (size_t level = 0; level <= levels; ++level) {
    std::map<std::string, std::vector<size_t>> same;  // entries that are still without a name
    for (size_t i = 0; i < sources.size(); ++i)
      if (names[i].empty()) same[parts[i].name(level)].push_back(i);
    for (const auto& [name, entries] : same) {
      if (entries.size() > 1 || !is_set_name(name) || !taken.insert(name).second) continue;
      names[entries.front()] = name;
    }
  }
  // Paths that differ in wildcards or other characters alone.
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string name = parts[i].name(levels);
    for (int number = 1; names[i].empty(); ++number) {
      const std::string numbered = str(name, "-", number);
      if (taken.insert(numbered).second) names[i] = numbered;
    }
  }
  return names;
}

}  // namespace lmtrain
