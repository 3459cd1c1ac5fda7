// The documents of a corpus in batches of some 256 KiB. One hand-over to a thread serves a whole
// batch of small documents. Where the text of a corpus is small enough, the first whole pass keeps
// it, and later passes read no file.
//
// One thread makes the passes. complete() finishes a batch; nothing changes it after that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ordered_pool.h"
#include "base/progress.h"
#include "text/corpus.h"

namespace lmtrain {

class DocumentBatch {
 public:
  // File number `file` ends after the first `documents` documents of the batch.
  struct FileEnd {
    size_t file;
    size_t documents;
    NoDocuments skipped;  // in the whole file; nothing is counted for JSON lines
  };

  // Call it first, in the thread that uses the batch: it finds the texts in JSON lines, which come
  // into the batch as they are read. Throws the errors of the reader.
  void complete(const Corpus& corpus);

  // These need a complete batch. In JSON lines a position counts from the beginning of the batch;
  // PositionCounter gives what to add.
  size_t size() const { return ends_.size(); }
  std::string_view document(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }
  const DocumentLocation& location(size_t i) const { return locations_[i]; }
  const std::vector<FileEnd>& file_ends() const { return file_ends_; }
  // Returns the JSON lines of this batch that hold no document. Other formats count in
  // FileEnd::skipped, since a preparation may go on after any file.
  const NoDocuments& skipped_in_lines() const { return skipped_in_lines_; }
  // The size of the text; of the lines, while a batch of JSON lines is not complete.
  size_t bytes() const { return text_.size(); }
  // The file of the first document, for messages.
  size_t file() const { return file_; }
  bool is_of_lines() const { return first_line_ > 0; }

 private:
  friend class DocumentBatches;
  explicit DocumentBatch(size_t file);
  void add(std::string_view text, const DocumentLocation& location);
  void add_line(std::string_view line) {
    text_ += line;
    text_ += '\n';
  }
  bool is_full() const;
  void find_texts(const Corpus& corpus);

  size_t file_;
  int64_t first_line_ = 0;  // 0: no JSON lines
  bool is_complete_ = true;
  std::string text_;          // of the documents, or lines
  std::vector<size_t> ends_;  // of the documents, in the text
  std::vector<DocumentLocation> locations_;
  std::vector<FileEnd> file_ends_;
  NoDocuments skipped_in_lines_;
};
using BatchPointer = std::shared_ptr<DocumentBatch>;

// Finds the positions of documents in their files. Batches come in the order of the corpus.
class PositionCounter {
 public:
  // Returns the number to add to the positions of this batch, which must be complete.
  int64_t next(const DocumentBatch& batch) {
    if (!batch.is_of_lines()) return 0;
    if (batch.file() != file_) documents_ = 0;
    file_ = batch.file();
    const int64_t before = documents_;
    documents_ += static_cast<int64_t>(batch.size());
    return before;
  }

 private:
  size_t file_ = SIZE_MAX;
  int64_t documents_ = 0;
};

class DocumentBatches {
 public:
  // A batch is full when its bytes of text plus its documents reach this. A file of JSON lines
  // begins a batch and ends one, so batches before and at its end may be smaller.
  static constexpr size_t kBatchBytes = size_t{1} << 18;

  // Keeps the text of a whole pass if it has at most `most_kept` bytes. `corpus` must outlive the
  // object.
  explicit DocumentBatches(const Corpus& corpus, uint64_t most_kept = 0)
      : corpus_(corpus), most_kept_(most_kept) {}

  const Corpus& corpus() const { return corpus_; }
  // Passes the documents from `from` on to `visit`, in order; `visit` calls complete(). Leaves out
  // files for which `wanted` is false, unless it has kept the text of the corpus. Throws the errors
  // of Corpus::read_file() and of `visit`.
  using Visit = std::function<void(const BatchPointer& batch)>;
  using Wanted = std::function<bool(const SourceFile& file)>;
  void for_each(ProgressBar& progress, const Visit& visit, const DocumentLocation& from = {},
                const Wanted& wanted = {});
  // Does the same for all documents, one by one.
  void for_each_document(ProgressBar& progress, const Corpus::Visit& visit);

 private:
  void read(ProgressBar& progress, const Visit& visit, const DocumentLocation& from,
            const Wanted& wanted) const;
  void read_lines(size_t file, ProgressBar& progress, const Visit& visit) const;

  const Corpus& corpus_;
  uint64_t most_kept_;
  std::vector<BatchPointer> kept_;
  bool are_all_kept_ = false;
};

// Has threads work on batches while more are read, in bounded memory. The results come back in the
// order of the work. One thread calls; it counts in `num_threads`, and works while it waits. push()
// and finish() throw what the work and `take` throw.
template <class Result>
class BatchWork {
 public:
  using Take = std::function<void(Result result)>;

  // `take` gets each result on the thread that calls push() and finish().
  BatchWork(int num_threads, Take take)
      : take_(std::move(take)),
        pool_(std::max(num_threads, 1),
              kBatchesPerThread * static_cast<size_t>(std::max(num_threads, 1))) {}

  // Has a thread call `work`, which is about `bytes` bytes of text. May wait, and call `take`.
  void push(size_t bytes, std::function<Result()> work) {
    while (pool_.full() || (under_way_ > kMostBytes && !pool_.empty())) take_oldest();
    under_way_ += bytes;
    pool_.push([bytes, work = std::move(work)] { return Done{bytes, work()}; });
  }
  // Calls `take` for all results that are still to come.
  void finish() {
    while (!pool_.empty()) take_oldest();
  }

 private:
  static constexpr size_t kBatchesPerThread = 4;
  static constexpr size_t kMostBytes = size_t{1} << 26;  // under way, but for the last batch

  struct Done {
    size_t bytes;
    Result result;
  };
  void take_oldest() {
    Done done = pool_.pop();
    under_way_ -= done.bytes;
    take_(std::move(done.result));
  }

  Take take_;
  size_t under_way_ = 0;
  OrderedPool<Done> pool_;  // its threads end first
};

}  // namespace lmtrain
