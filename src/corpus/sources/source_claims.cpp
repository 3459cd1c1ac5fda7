#include "corpus/sources/source_claims.h"

#include "base/error.h"
#include "base/terminal/log.h"
#include "base/text.h"

namespace lmtrain {

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

}  // namespace lmtrain
