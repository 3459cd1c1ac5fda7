// A corpus is a list of files and the way to read them. One pass over its text, in constant memory,
// finds counts and the fingerprint of the content. It also finds the sizes by which the tokenizer's
// sample is chosen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/progress.h"
#include "config/config.h"
#include "text/format.h"
#include "text/source_file.h"

namespace lmtrain {

// A document lies in corpus.files[file], at this position (readers.h). Locations ascend in document
// order.
struct DocumentLocation {
  size_t file = 0;
  int64_t position = 0;
};

struct Corpus {
  std::vector<SourceFile> files;          // each has its own format
  DataFormat format = DataFormat::kAuto;  // data.format; the files' formats follow (format.h)
  std::string text_field;
  // A document may have at most this many bytes of text (readers.h).
  uint64_t max_document = static_cast<uint64_t>(DataConfig().max_document);

  // Whether a bad line of JSON lines ends a pass or is left out.
  OnBadLine on_bad_line = OnBadLine::kStop;

  uint64_t total_bytes() const;  // size of the files on disk
  // Calls `visit` with the text of every document in order, from `from` on. Earlier files are not
  // opened. The format of each file must be decided. Returns how many blank lines and nulls were
  // read. In the file of `from` it also counts them before `from`, except in row groups and batches
  // that the reader of a table skips. A text is valid during the call alone. Throws the errors of
  // the readers (readers.h) and of `visit`, and:
  //   StopRequested   on a signal (ProgressBar of base/progress.h)
  //   Error(kData)    a file has changed since it was listed
  //   Error(kMemory)  memory ran out; the message names the file
  using Visit = std::function<void(std::string_view text, const DocumentLocation& location)>;
  NoDocuments for_each(ProgressBar& progress, const Visit& visit,
                       const DocumentLocation& from = {}) const;
  // Does the same for the documents of files[index] from the position `first` on.
  NoDocuments read_file(size_t index, int64_t first, ProgressBar& progress,
                        const Visit& visit) const;
};

// Throws Error(kMemory) for a document of this file that does not fit in memory. The message says
// what to do.
[[noreturn]] void fail_out_of_memory(const std::filesystem::path& path);

// CorpusCounts are the counts that a pass reports to people.
struct CorpusCounts {
  int64_t documents = 0;
  int64_t bytes = 0;
  int64_t empty_documents = 0;
  int64_t invalid_documents = 0;  // not valid UTF-8
  int64_t nul_documents = 0;      // with a NUL byte
  NoDocuments skipped{};
  FormatCounts formats{};  // of the files that were read to their end
  bool operator==(const CorpusCounts&) const = default;
};

// Selects the documents that train the tokenizer, spread over the corpus. Document hashes fall into
// 65536 ranges (by another hash than the split's). The sample takes the lowest ranges, until their
// documents have `budget` bytes. The caller stops at the budget, so the last documents of the
// corpus may be cut or left out.
class Sample {
 public:
  // Counts a document of `bytes` bytes of text; `hash` is its text_hash().
  void observe(uint64_t hash, uint64_t bytes);
  // Selects documents, once all were observed: at least `budget` bytes of text, or all documents if
  // they have fewer.
  void choose(uint64_t budget);
  // Returns whether the document with this hash is selected. Before choose() it returns false.
  bool selects(uint64_t hash) const;

  const std::vector<uint64_t>& bytes() const { return bytes_; }  // observed, by range of hashes
  // Sets the result of earlier observe() calls, as bytes() returned it. choose() must follow.
  void restore(std::vector<uint64_t> bytes) { bytes_ = std::move(bytes); }

 private:
  static constexpr int kBits = 16;
  static uint64_t bucket(uint64_t hash);
  std::vector<uint64_t> bytes_ = std::vector<uint64_t>(size_t{1} << kBits);
  uint64_t num_buckets_ = 0;  // selected
};

// Throws Error(kData) if more than 0.1 % of the lines of JSON lines were skipped as bad. `pointer`
// names the list: "/data/train".
void require_few_bad_lines(const NoDocuments& skipped, const std::string& pointer);
// Returns "3 of 5000 lines of JSON lines were skipped (...): FILE:LINE: ...".
std::string describe_bad_lines(const NoDocuments& skipped);

// Returns what is odd about the text: ", 3 empty documents, 2 nulls skipped". Empty if nothing is.
std::string describe_oddities(const CorpusCounts& counts);
// Warns of documents that are not UTF-8, and of lines that were skipped. `pointer` names the list.
void warn_of_text(const CorpusCounts& counts, const std::string& pointer);

class DocumentBatches;  // document_batches.h

struct CorpusScan {
  size_t next_file = 0;                 // the first file that is not scanned
  Hash128 content = Hasher().digest();  // hash of every document in order
  CorpusCounts counts;
};

// Makes a pass over the files from `scan.next_file` on and updates `scan`. Calls `observe` for each
// document, with its text_hash(), its size in bytes and its file. Calls `after_file` when a file is
// done and counted in `scan`. Both are called on the calling thread, in order; `num_threads`
// threads, the calling one included, look at the text. `action` names the pass in the progress
// line. Throws the errors of Corpus::for_each(), and Error(kMemory) where the system refuses a
// thread. After an error `scan` has counted a part of a file and must not be used.
void scan_corpus(
    DocumentBatches& documents, const std::string& action, int num_threads, CorpusScan& scan,
    const std::function<void(uint64_t hash, uint64_t bytes, const SourceFile& file)>& observe,
    const std::function<void()>& after_file);

}  // namespace lmtrain
