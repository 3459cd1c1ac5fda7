#include "text/sources.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/text.h"
#include "config/config.h"
#include "text/dataset_folder.h"
#include "text/glob.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// A file that several entries of data.train, or several named sets of data.eval, name belongs to
// the first of them. So an entry may end with fewer files than it names, or with none; these
// functions report it.

// Counts the files that one entry of the list names.
struct SourceClaims {
  size_t files = 0;                  // files that the entry names
  std::map<size_t, size_t> claimed;  // how many of them belong to an earlier entry, by its index
};

// Throws Error(kConfig) for an entry whose files all belong to earlier ones; an entry that names no
// file is no error. Logs a warning where files of an entry belong to an earlier one of a lower
// weight, and a note where that has a higher one. `claims` has one element per entry of `sources`;
// `pointer` is the JSON pointer of the list.
void report_claims(const std::vector<DataSourceConfig>& sources,
                   const std::vector<SourceClaims>& claims, const std::string& pointer) {
  const auto entry = [&](size_t index) {
    return str(pointer, "/", index, " (\"", sources[index].path, "\", weight ",
               sources[index].weight, ")");
  };
  for (size_t i = 0; i < claims.size(); ++i) {
    size_t lost = 0;
    std::vector<std::string> owners;
    for (const auto& [owner, files] : claims[i].claimed) {
      lost += files;
      owners.push_back(entry(owner));
    }
    if (lost > 0 && lost == claims[i].files) {
      throw Error(ErrorKind::kConfig,
                  str(entry(i), " has no file of its own: ",
                      lost == 1 ? "its file belongs" : "all its files belong", " to ",
                      join(owners, " and "),
                      ", since a file belongs to the first entry that names it; name what is "
                      "special first, or remove the entry"));
    }
    for (const auto& [owner, files] : claims[i].claimed) {
      if (sources[owner].weight == sources[i].weight) continue;
      const std::string what = str(files, " of the ", claims[i].files, " files of ", entry(i),
                                   " belong to ", entry(owner), ", which names them first");
      if (sources[owner].weight < sources[i].weight) {
        log_warning(str(what, "; name what is special first"));
      } else {
        log_note(what);
      }
    }
  }
}

// Does the same for named sets, whose weights count nothing: throws Error(kConfig) for a set
// without a file of its own, and logs a warning for each entry with files that belong to another
// set.
void report_set_claims(const std::vector<DataSourceConfig>& sources,
                       const std::vector<SourceClaims>& claims, const std::string& pointer) {
  std::map<std::string, size_t> own;  // files of each set
  for (size_t i = 0; i < claims.size(); ++i) {
    size_t lost = 0;
    for (const auto& [owner, files] : claims[i].claimed) lost += files;
    own[sources[i].set] += claims[i].files - lost;
  }
  for (const auto& [set, files] : own) {
    if (files > 0) continue;
    throw Error(ErrorKind::kConfig,
                str(pointer, "/", set,
                    " has no file of its own: all its files belong to sets before it, since a file "
                    "belongs to the first set that names it; name what is special first, or remove "
                    "the set"));
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    for (const auto& [owner, files] : claims[i].claimed) {
      if (sources[owner].set == sources[i].set) continue;
      log_warning(str(files, " of the ", claims[i].files, " files of ",
                      entry_pointer(pointer, sources, i), " (\"", sources[i].path,
                      "\") belong to the set ", sources[owner].set, ", which names them first"));
    }
  }
}

std::string explain_missing(const std::string& path) {
  const FileKind kind = examine(path).kind;
  if (kind == FileKind::kFolder) return "the folder holds no files (hidden ones are left out)";
  if (kind != FileKind::kMissing)
    return str("it is ", file_kind_name(path), ", neither a file nor a folder");
  if (has_wildcard(path)) {
    return "the pattern matches no file; * stays within a folder, ** crosses folders, hidden files "
           "need a spelled dot, "
           "and a folder's files are taken by naming it without wildcards or by adding /**";
  }
  return str("no such file or folder; check the spelling (relative paths begin at ",
             shown(fs::current_path()), ")");
}

// A file is its device and inode: links and hard links lead to one file, which is read once.
class Identities {
 public:
  // The entry to which the file belongs: `entry`, or an earlier one that has led to it.
  size_t owner_of(const std::string& path, size_t entry) {
    const FileInfo info = examine(path);
    is_new_ = true;
    if (info.kind == FileKind::kMissing) return entry;  // it is gone since it was listed
    const auto [first, is_new] =
        first_.emplace(std::pair{info.device, info.inode}, Named{path, entry});
    is_new_ = is_new;
    const Named& named = first->second;
    if (!is_new && named.path != path) {
      if (num_again_++ == 0) example_ = str(shown(path), " is ", shown(named.path));
    }
    return named.entry;
  }
  // Whether owner_of() met the file for the first time.
  bool is_new() const { return is_new_; }
  // Notes how many files were met again since the last report.
  void report(const std::string& prefix) {
    if (num_again_ > 0) {
      log_note(str(prefix, counted(num_again_, "file"), " left out that links lead to again: ",
                   example_, num_again_ > 1 ? ", ..." : ""));
    }
    num_again_ = 0;
  }

 private:
  struct Named {
    std::string path;
    size_t entry;
  };
  std::map<std::pair<uint64_t, uint64_t>, Named> first_;
  bool is_new_ = false;
  int64_t num_again_ = 0;
  std::string example_;
};

// Returns the documents of `found`, without the other files of a data set. `path` is a folder or a
// pattern.
std::vector<fs::path> documents_in(const fs::path& path, std::vector<fs::path> found,
                                   DataFormat format, Role role, const std::string& prefix) {
  const bool is_pattern = !is_folder(path);
  fs::path root = without_final_slash(path);
  if (is_pattern) {
    root.clear();
    for (const fs::path& part : path.parent_path()) {
      if (has_wildcard(part.native())) break;
      root /= part;
    }
  }
  return documents_of(root, std::move(found), is_pattern ? path.native() : std::string(), format,
                      role, prefix);
}

}  // namespace

std::string entry_pointer(const std::string& pointer, const std::vector<DataSourceConfig>& sources,
                          size_t index) {
  const std::string set = index < sources.size() ? sources[index].set : "";
  if (set.empty()) return str(pointer, "/", index);
  const auto before = sources.begin() + static_cast<std::ptrdiff_t>(index);
  const auto number = std::count_if(
      sources.begin(), before, [&](const DataSourceConfig& source) { return source.set == set; });
  return str(pointer, "/", set, "/", number);
}

std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer, DataFormat format,
                                          Role role) {
  std::map<std::string, size_t> taken;  // in byte order of absolute path: its source
  Identities identities;
  std::vector<SourceClaims> claims(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string prefix = pointer.empty() ? "" : str(entry_pointer(pointer, sources, i), ": ");
    const std::string& path = sources[i].path;
    std::vector<fs::path> found = find_files(path);
    // A file that an entry names itself is taken, whatever lies beside it.
    const bool is_one_file = found.size() == 1 && found[0] == fs::path(path);
    if (is_one_file && has_tool_ending(found[0])) {
      log_warning(str(prefix, shown(found[0]),
                      " has the name of an unfinished download, a lock or a tool's own file; it is "
                      "read because it is named"));
    }
    if (!found.empty() && !is_one_file) {
      found = documents_in(path, std::move(found), format, role, prefix);
      if (found.empty()) {
        throw Error(ErrorKind::kUsage,
                    str(prefix, "\"", shown(path),
                        "\": its files only describe a data set, or are a cache of "
                        "one, or lmtrain's own; name the folder that holds the data"));
      }
    }
    if (found.empty())
      throw Error(ErrorKind::kUsage, str(prefix, "\"", shown(path), "\": ", explain_missing(path)));
    std::set<std::string> paths;  // in byte order
    for (const fs::path& file : found) paths.insert(absolute_path(file).native());
    for (const std::string& file : paths) {
      ++claims[i].files;
      const size_t owner = identities.owner_of(file, i);
      if (owner == i && identities.is_new()) taken.emplace(file, i);
      if (owner != i) ++claims[i].claimed[owner];
    }
    identities.report(prefix);
  }
  if (pointer == kTrainPointer) report_claims(sources, claims, pointer);
  if (!sources.empty() && !sources.front().set.empty()) report_set_claims(sources, claims, pointer);
  std::vector<SourceFile> files;
  files.reserve(taken.size());
  for (const auto& [path, source] : taken) files.push_back(source_file(path, source));
  return files;
}

}  // namespace lmtrain
