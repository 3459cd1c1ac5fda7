#include "text/source_claims.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace lmtrain {

std::string entry_pointer(const std::string& pointer, const std::vector<DataSourceConfig>& sources,
                          size_t index) {
  const std::string& set = sources[index].set;
  if (set.empty()) return str(pointer, "/", index);
  const auto before = sources.begin() + static_cast<std::ptrdiff_t>(index);
  const auto number = std::count_if(
      sources.begin(), before, [&](const DataSourceConfig& source) { return source.set == set; });
  return str(pointer, "/", set, "/", number);
}

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

}  // namespace lmtrain
