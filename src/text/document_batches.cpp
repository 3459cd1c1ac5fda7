#include "text/document_batches.h"

namespace lmtrain {
namespace {

bool is_beginning(const DocumentLocation& location) {
  return location.file == 0 && location.position == 0;
}

}  // namespace

void DocumentBatches::for_each(ProgressBar& progress, const Visit& visit,
                               const DocumentLocation& from, const Wanted& wanted) {
  if (are_all_kept_ && is_beginning(from)) {
    for (const BatchPointer& batch : kept_) {
      visit(batch);
      for (const DocumentBatch::FileEnd& end : batch->file_ends)
        progress.advance(corpus_.files[end.file].size);
    }
    return;
  }
  if (!is_beginning(from) || wanted || most_kept_ == 0) {
    read(progress, visit, from, wanted);
    return;
  }
  kept_.clear();
  uint64_t kept = 0;
  const auto keep = [&](const BatchPointer& batch) {
    visit(batch);
    kept += batch->text.capacity();
    if (kept <= most_kept_) {
      kept_.push_back(batch);
    } else {
      kept_ = {};
    }
  };
  read(progress, keep, from, wanted);
  are_all_kept_ = kept <= most_kept_;
}

void DocumentBatches::for_each_document(ProgressBar& progress, const Corpus::Visit& visit) {
  for_each(progress, [&](const BatchPointer& batch) {
    for (size_t i = 0; i < batch->size(); ++i) visit(batch->document(i), batch->locations[i]);
  });
}

void DocumentBatches::read(ProgressBar& progress, const Visit& visit, const DocumentLocation& from,
                           const Wanted& wanted) const {
  const auto new_batch = [] {
    auto batch = std::make_shared<DocumentBatch>();
    batch->text.reserve(kBatchBytes + kBatchBytes / 4);
    return batch;
  };
  std::shared_ptr<DocumentBatch> batch = new_batch();
  for (size_t file = 0; file < corpus_.files.size(); ++file) {
    if (file < from.file || (wanted && !wanted(corpus_.files[file]))) {
      progress.skip(corpus_.files[file].size);
      continue;
    }
    NoDocuments skipped =
        corpus_.read_file(file, file == from.file ? from.position : 0, progress,
                          [&](std::string_view text, const DocumentLocation& location) {
                            batch->text += text;
                            batch->ends.push_back(batch->text.size());
                            batch->locations.push_back(location);
                            if (batch->text.size() + batch->size() < kBatchBytes) return;
                            visit(std::exchange(batch, new_batch()));
                          });
    batch->file_ends.push_back({file, batch->size(), std::move(skipped)});
  }
  visit(batch);
}

}  // namespace lmtrain
