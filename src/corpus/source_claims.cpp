#include "corpus/source_claims.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace lmtrain {

void report_claims(const std::vector<DataSourceConfig>& sources,
                   const std::vector<SourceClaims>& claims, const std::string& pointer) {
  const auto entry = [&](size_t index) {
    return str(pointer, "/", index, " (\"", sources[index].path, "\", weight ",
               sources[index].weight, ")");
  };
  for (size_t i = 0; i < claims.size(); ++i) {
    const SourceClaims& claim = claims[i];
    if (claim.claimed == 0) continue;
    if (claim.claimed == claim.files) {
      throw Error(ErrorKind::kConfig,
                  str(entry(i), " has no file of its own: ",
                      claim.files == 1 ? "its file belongs" : "all its files belong", " to ",
                      entry(claim.by),
                      ", since a file belongs to the first entry that names it; name what is "
                      "special first, or remove the entry"));
    }
    const double weight = sources[i].weight;
    const double other = sources[claim.by].weight;
    if (weight == other) continue;
    const std::string what = str(claim.claimed, " of the ", claim.files, " files of ", entry(i),
                                 " belong to ", entry(claim.by), ", which names them first");
    if (other < weight) {
      log_warning(str(what, "; name what is special first"));
    } else {
      log_note(what);
    }
  }
}

}  // namespace lmtrain
