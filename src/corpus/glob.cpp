#include "corpus/glob.h"

#include <sys/stat.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

bool is_hidden(std::string_view name) { return name.starts_with('.'); }

// Length in bytes of the UTF-8 character that begins at `text`; 1 for anything malformed.
size_t character_size(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) ++size;
  return size;
}

// Matches `c` against the set that begins at pattern[0] == '['; `size` becomes the set's length, 0
// when it has no end.
bool matches_set(std::string_view pattern, char c, size_t& size) {
  size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (const size_t first = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > first) {
      size = i + 1;
      return found != negated;
    }
    const bool is_range = i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']';
    const auto low = static_cast<unsigned char>(pattern[i]);
    const auto high = static_cast<unsigned char>(pattern[is_range ? i + 2 : i]);
    const auto value = static_cast<unsigned char>(c);
    found = found || (low <= value && value <= high);
    if (is_range) i += 2;
  }
  size = 0;
  return false;
}

std::vector<std::string> split_components(std::string_view pattern) {
  std::vector<std::string> components;
  for (size_t begin = 0; begin <= pattern.size();) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    if (end > begin) components.emplace_back(pattern.substr(begin, end - begin));
    begin = end + 1;
  }
  return components;
}

// Collects the files below a folder that match the components of a pattern.
class Walker {
 public:
  explicit Walker(std::vector<std::string> components) : components_(std::move(components)) {}

  void walk(const fs::path& base, size_t next) {
    struct stat info {};
    if (::stat(base.empty() ? "." : base.c_str(), &info) != 0) return;
    if (next == components_.size()) {
      if (S_ISREG(info.st_mode)) files_.insert(base);
      return;
    }
    if (!S_ISDIR(info.st_mode)) return;
    if (!visited_.insert({info.st_dev, info.st_ino, next}).second) return;
    const std::string& component = components_[next];
    if (component == "**") {
      walk_any_depth(base, next);
    } else if (has_wildcard(component)) {
      for (const fs::path& entry : entries(base)) {
        if (matches_component(component, entry.filename().native())) walk(entry, next + 1);
      }
    } else {
      walk(base / component, next + 1);
    }
  }

  std::vector<fs::path> files() const { return {files_.begin(), files_.end()}; }

 private:
  // "**" stands for no folder (match the rest here) or for one more level; as the last component,
  // for every file.
  void walk_any_depth(const fs::path& base, size_t next) {
    const bool is_last = next + 1 == components_.size();
    if (!is_last) walk(base, next + 1);
    for (const fs::path& entry : entries(base)) {
      if (is_hidden(entry.filename().native())) continue;
      if (fs::is_directory(entry)) {
        walk(entry, next);
      } else if (is_last) {
        walk(entry, next + 1);
      }
    }
  }

  // Sorted, so that which of two ways into one folder is taken does not depend on the file system.
  static std::set<fs::path> entries(const fs::path& folder) {
    std::error_code error;
    std::set<fs::path> found;
    fs::directory_iterator it(folder.empty() ? fs::path(".") : folder, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      found.insert(folder / it->path().filename());
    }
    if (error) {
      throw Error(ErrorKind::kIo, str("cannot list the folder ", folder.string(), ": ",
                                      error.message(), "; check its permissions"));
    }
    return found;
  }

  std::vector<std::string> components_;
  std::set<fs::path> files_;
  std::set<std::tuple<dev_t, ino_t, size_t>> visited_;
};

}  // namespace

std::string expand_variables(std::string_view path, std::string_view place) {
  std::string expanded;
  for (size_t i = 0; i < path.size();) {
    const size_t end =
        path.substr(i).starts_with("${") ? path.find('}', i) : std::string_view::npos;
    if (end == std::string_view::npos) {
      expanded.push_back(path[i++]);
      continue;
    }
    const std::string name(path.substr(i + 2, end - i - 2));
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      throw Error(ErrorKind::kUsage,
                  str(place, "\"", path, "\" uses the environment variable ", name,
                      ", which is not set; export it or write the path out"));
    }
    expanded += value;
    i = end + 1;
  }
  return expanded;
}

bool has_wildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

bool matches_component(std::string_view pattern, std::string_view name) {
  if (is_hidden(name) && !is_hidden(pattern)) return false;
  // On a mismatch the last star takes one more character: greedy matching needs no deeper search.
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t star_name = 0;
  while (n < name.size()) {
    size_t pattern_size = 1;
    size_t name_size = 1;
    bool matched = false;
    if (p < pattern.size()) {
      if (pattern[p] == '*') {
        star = p++;
        star_name = n;
        continue;
      }
      if (pattern[p] == '?') {
        name_size = character_size(name.substr(n));
        matched = true;
      } else {
        matched = pattern[p] == '[' && matches_set(pattern.substr(p), name[n], pattern_size);
        // A bracket that is never closed is an ordinary character.
        if (pattern[p] != '[' || pattern_size == 0) {
          pattern_size = 1;
          matched = pattern[p] == name[n];
        }
      }
    }
    if (matched) {
      p += pattern_size;
      n += name_size;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<fs::path> find_files(const std::string& pattern) {
  std::error_code error;
  const fs::file_status status = fs::status(pattern, error);
  if (fs::is_regular_file(status)) return {pattern};
  if (fs::is_directory(status)) {
    Walker walker({"**"});
    walker.walk(pattern, 0);
    return walker.files();
  }
  if (!has_wildcard(pattern)) return {};
  Walker walker(split_components(pattern));
  walker.walk(pattern.starts_with('/') ? "/" : "", 0);
  return walker.files();
}

}  // namespace lmtrain
