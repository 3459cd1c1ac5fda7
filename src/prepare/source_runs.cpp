#include "prepare/source_runs.h"

namespace lmtrain {

void FileTally::begin_document(size_t file, int64_t next) {
  first_.resize(std::max(first_.size(), file + 1), next);
}

// visit(file, first document) for those that have documents.
template <class Visit>
void FileTally::for_each_file(int64_t num_documents, const Visit& visit) const {
  for (size_t file = 0; file < first_.size(); ++file) {
    const int64_t end = file + 1 < first_.size() ? first_[file + 1] : num_documents;
    if (first_[file] < end) visit(file, first_[file]);
  }
}

std::vector<SourceRun> FileTally::runs(const std::vector<SourceFile>& files,
                                       int64_t num_documents) const {
  std::vector<SourceRun> runs;
  for_each_file(num_documents, [&](size_t file, int64_t first) {
    const int32_t source = files[file].source;
    if (runs.empty() || runs.back().source != source) runs.push_back({first, source});
  });
  return runs;
}

std::vector<DocumentFile> FileTally::files(const std::vector<SourceFile>& files,
                                           int64_t num_documents) const {
  std::vector<DocumentFile> named;
  for_each_file(num_documents, [&](size_t file, int64_t first) {
    named.push_back({first, files[file].path});
  });
  return named;
}

}  // namespace lmtrain
