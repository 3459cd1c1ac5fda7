#include "text/document_batches.h"

#include "text/readers.h"

namespace lmtrain {
namespace {

bool is_beginning(const DocumentLocation& location) {
  return location.file == 0 && location.position == 0;
}

}  // namespace

DocumentBatch::DocumentBatch(size_t file) : file_(file) {
  constexpr size_t kBytes = DocumentBatches::kBatchBytes;
  text_.reserve(kBytes + kBytes / 4);
}

void DocumentBatch::add(std::string_view text, const DocumentLocation& location) {
  text_ += text;
  ends_.push_back(text_.size());
  locations_.push_back(location);
}

bool DocumentBatch::is_full() const {
  return text_.size() + ends_.size() >= DocumentBatches::kBatchBytes;
}

void DocumentBatch::complete(const Corpus& corpus) {
  if (is_complete_) return;
  try {
    find_texts(corpus);
  } catch (...) {
    rethrow_of(corpus.files[file_]);
  }
  is_complete_ = true;
}

void DocumentBatch::find_texts(const Corpus& corpus) {
  JsonLines json(corpus.files[file_].path, corpus.text_field,
                 corpus.on_bad_line == OnBadLine::kSkip);
  std::string lines;
  lines.reserve(text_.size());
  lines.swap(text_);
  std::string_view rest = lines;
  for (int64_t number = first_line_; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    std::string_view text;
    if (json.find_text(line, number, text, skipped_in_lines_))
      add(text, {file_, static_cast<int64_t>(size())});
  }
  for (FileEnd& end : file_ends_) end.documents = size();
}

void DocumentBatches::for_each(ProgressBar& progress, const Visit& visit,
                               const DocumentLocation& from, const Wanted& wanted) {
  if (are_all_kept_ && is_beginning(from)) {
    for (const BatchPointer& batch : kept_) {
      visit(batch);
      for (const DocumentBatch::FileEnd& end : batch->file_ends())
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
    kept += batch->text_.capacity();
    if (kept <= most_kept_) {
      kept_.push_back(batch);
    } else {
      kept_ = {};
    }
    visit(batch);
  };
  read(progress, keep, from, wanted);
  are_all_kept_ = kept <= most_kept_;
}

void DocumentBatches::for_each_document(ProgressBar& progress, const Corpus::Visit& visit) {
  PositionCounter positions;
  for_each(progress, [&](const BatchPointer& batch) {
    batch->complete(corpus_);
    const int64_t before = positions.next(*batch);
    for (size_t i = 0; i < batch->size(); ++i) {
      const DocumentLocation& location = batch->location(i);
      visit(batch->document(i), {location.file, before + location.position});
    }
  });
}

void DocumentBatches::read(ProgressBar& progress, const Visit& visit, const DocumentLocation& from,
                           const Wanted& wanted) const {
  BatchPointer batch;
  const auto push = [&] {
    if (batch) visit(std::exchange(batch, nullptr));
  };
  const auto open_batch = [&](size_t file) -> DocumentBatch& {
    if (!batch) batch.reset(new DocumentBatch(file));
    return *batch;
  };
  for (size_t file = 0; file < corpus_.files.size(); ++file) {
    if (file < from.file || (wanted && !wanted(corpus_.files[file]))) {
      progress.skip(corpus_.files[file].size);
      continue;
    }
    const int64_t first = file == from.file ? from.position : 0;
    if (first == 0 && corpus_.files[file].format == "jsonl") {
      push();
      read_lines(file, progress, visit);
      continue;
    }
    NoDocuments skipped = corpus_.read_file(
        file, first, progress, [&](std::string_view text, const DocumentLocation& location) {
          open_batch(file).add(text, location);
          if (batch->is_full()) push();
        });
    DocumentBatch& last = open_batch(file);
    last.file_ends_.push_back({file, last.size(), std::move(skipped)});
  }
  push();
}

void DocumentBatches::read_lines(size_t index, ProgressBar& progress, const Visit& visit) const {
  const SourceFile& file = corpus_.files[index];
  LineReader lines(file.path, corpus_.max_document);
  uint64_t counted = 0;
  BatchPointer batch;
  const auto begin_batch = [&] {
    batch.reset(new DocumentBatch(index));
    batch->first_line_ = lines.line_number() + 1;
    batch->is_complete_ = false;
  };
  const auto next = [&](std::string_view& line) {
    try {
      return lines.next(line);
    } catch (...) {
      rethrow_of(file);
    }
  };
  begin_batch();
  for (std::string_view line; next(line);) {
    batch->add_line(line);
    if (!batch->is_full()) continue;
    visit(std::exchange(batch, nullptr));
    progress.reach(lines.file_offset(), file.size, counted);
    begin_batch();
  }
  require_unchanged(file);
  progress.reach(file.size, file.size, counted);
  batch->file_ends_.push_back({index, 0, {}});
  visit(batch);
}

}  // namespace lmtrain
