#include "text/glob.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

bool is_hidden(std::string_view name) { return name.starts_with('.'); }

// Length in bytes of the UTF-8 character that begins at `text`; 1 for anything malformed.
size_t character_size(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && is_utf8_continuation(text[size])) ++size;
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
    visit(base, examine(base.empty() ? "." : base), next);
  }

  std::vector<fs::path> files() const { return {files_.begin(), files_.end()}; }
  // Entries of folders that match and lead to nothing.
  const std::set<fs::path>& dead_links() const { return dead_links_; }

 private:
  void visit(const fs::path& base, const FileInfo& info, size_t next) {
    if (next == components_.size()) {
      if (info.kind == FileKind::kFile) files_.insert(base);
      return;
    }
    if (info.kind != FileKind::kFolder) return;
    if (!visited_.insert({info.device, info.inode, next}).second) return;
    if (devices_.insert(info.device).second) refuse_kernel_folder(base);
    const std::string& component = components_[next];
    if (component == "**") {
      walk_any_depth(base, next);
    } else if (has_wildcard(component)) {
      for (const std::string& name : entries(base)) {
        if (matches_component(component, name)) visit_entry(base / name, next + 1);
      }
    } else {
      walk(base / component, next + 1);
    }
  }

  // An entry that a folder lists and that is not there is a link that leads nowhere, or has
  // vanished since. is_link() throws Error(kIo) for a path that is too long.
  void note_missing(const fs::path& entry, const FileInfo& info, bool is_wanted) {
    throw_if_stopped();
    if (info.kind == FileKind::kMissing && is_link(entry) && is_wanted) dead_links_.insert(entry);
  }

  void visit_entry(const fs::path& entry, size_t next) {
    const FileInfo info = examine(entry);
    note_missing(entry, info, next == components_.size());
    visit(entry, info, next);
  }

  // "**" stands for no folder (match the rest here) or for one more level; as the last component,
  // for every file.
  void walk_any_depth(const fs::path& base, size_t next) {
    const bool is_last = next + 1 == components_.size();
    if (!is_last) walk(base, next + 1);
    for (const std::string& name : entries(base)) {
      if (is_hidden(name)) continue;
      const fs::path entry = base / name;
      const FileInfo info = examine(entry);
      if (info.kind == FileKind::kFolder) {
        visit(entry, info, next);
      } else {
        note_missing(entry, info, is_last);
        if (is_last) visit(entry, info, next + 1);
      }
    }
  }

  // Sorted, so that which of two ways into one folder is taken does not depend on the file system.
  static std::vector<std::string> entries(const fs::path& folder) {
    return list_folder(folder.empty() ? fs::path(".") : folder);
  }

  // Below / lie folders that hold the state of the kernel, without an end.
  static void refuse_kernel_folder(const fs::path& folder) {
    struct statfs info {};
    if (::statfs(folder.empty() ? "." : folder.c_str(), &info) != 0) return;
    if (info.f_type != PROC_SUPER_MAGIC && info.f_type != SYSFS_MAGIC) return;
    throw Error(ErrorKind::kUsage,
                str("the folder ", shown(folder),
                    " holds the state of the kernel and no text; name folders that hold text"));
  }

  std::vector<std::string> components_;
  std::set<fs::path> files_;
  std::set<fs::path> dead_links_;
  std::set<uint64_t> devices_;
  std::set<std::tuple<uint64_t, uint64_t, size_t>> visited_;
};

}  // namespace

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
  const FileKind kind = examine(pattern).kind;
  if (kind == FileKind::kFile) return {pattern};
  if (kind != FileKind::kFolder && !has_wildcard(pattern)) return {};
  const bool all = kind == FileKind::kFolder;
  Walker walker(all ? std::vector<std::string>{"**"} : split_components(pattern));
  walker.walk(all ? pattern : pattern.starts_with('/') ? "/" : "", 0);
  if (const std::set<fs::path>& dead = walker.dead_links(); !dead.empty()) {
    log_warning(str("\"", shown(pattern), "\": ",
                    dead.size() == 1 ? "1 link that leads to no file is left out: "
                                     : str(dead.size(),
                                           " links that lead to no file are left out, "
                                           "the first is "),
                    shown(*dead.begin())));
  }
  return walker.files();
}

}  // namespace lmtrain
