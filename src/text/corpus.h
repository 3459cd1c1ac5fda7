// A Corpus is a list of files and the way to read them. scan_corpus() passes over its text once, in
// constant memory, and finds its counts and the hash of its content.
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

  // kStop: a bad line of JSON lines throws; kSkip: it is counted and left out.
  OnBadLine on_bad_line = OnBadLine::kStop;

  uint64_t total_bytes() const;  // size of the files on disk
  // Calls `visit` with the text of every document of files[index] in order, from the position
  // `first` on. A text is valid only during the call. The format of the file must be decided.
  // Returns the counts of blank lines, nulls and the like that it read. They include what lies
  // before `first`, except in row groups and batches that the reader of a table skips. Throws the
  // errors of the readers (readers.h) and of `visit`, and:
  //   StopRequested   on a signal (ProgressBar of base/progress.h)
  //   Error(kData)    a file has changed since it was listed
  //   Error(kMemory)  memory ran out; the message names the file
  using Visit = std::function<void(std::string_view text, const DocumentLocation& location)>;
  NoDocuments read_file(size_t index, int64_t first, ProgressBar& progress,
                        const Visit& visit) const;
};

// Throws Error(kMemory) for a document of this file that does not fit in memory.
[[noreturn]] void fail_out_of_memory(const std::filesystem::path& path);
// Rethrows the exception at hand, of reading `file`; call it in a handler. For Error(kData) it
// first calls require_unchanged(), since a file that is still being written looks damaged. It turns
// std::bad_alloc into fail_out_of_memory().
[[noreturn]] void rethrow_of(const SourceFile& file);

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

// Selects the documents that train the tokenizer, spread over the corpus. Another hash, of the
// text_hash(), divides the documents into 65536 ranges. The sample takes the lowest ranges, until
// their documents have `budget` bytes. It may have more: the caller stops at the budget, and so
// cuts or leaves out the last documents of the corpus.
class Sample {
 public:
  // Counts a document of `bytes` bytes of text, whose text_hash() is `hash`.
  void observe(uint64_t hash, uint64_t bytes);
  // Selects documents, after all observe() calls: at least `budget` bytes of text, or all documents
  // if they have fewer.
  void choose(uint64_t budget);
  // Returns whether the document with this hash is selected. Before choose() it returns false.
  bool selects(uint64_t hash) const;

  const std::vector<uint64_t>& bytes() const { return bytes_; }  // observed, by range of hashes
  // Replaces what was observed by an earlier result of bytes(). choose() must follow.
  void load(std::vector<uint64_t> bytes) { bytes_ = std::move(bytes); }

 private:
  static constexpr int kBits = 16;
  static uint64_t bucket(uint64_t hash);
  std::vector<uint64_t> bytes_ = std::vector<uint64_t>(size_t{1} << kBits);
  uint64_t num_buckets_ = 0;  // selected
};

// Throws Error(kData) if more than 0.1 % of the lines of JSON lines were skipped as bad. `pointer`
// names the list of files: "/data/train".
void require_few_bad_lines(const NoDocuments& skipped, const std::string& pointer);
// Returns "3 of 5000 lines of JSON lines skipped as data.on_bad_line says: FILE:LINE: ...".
std::string describe_bad_lines(const NoDocuments& skipped);

// Returns the oddities of the text: ", 3 empty documents, 2 nulls skipped"; "" without any.
std::string describe_oddities(const CorpusCounts& counts);
// Logs warnings of documents that are not UTF-8, and of bad lines that were skipped.
void warn_of_text(const CorpusCounts& counts, const std::string& pointer);

class DocumentBatches;  // document_batches.h

struct CorpusScan {
  size_t next_file = 0;                 // the first file that is not scanned
  Hash128 content = Hasher().digest();  // hash of every document in order
  CorpusCounts counts;
};

// Makes a pass over the files from `scan.next_file` on and updates `scan`. Calls `observe` for each
// document, with its text_hash(), its size in bytes and its file. Calls `after_file` when a file is
// done and counted in `scan`. Calls both on the calling thread, in order; `num_threads` threads,
// that one included, hash the text. `action` names the pass in the progress line. Throws the errors
// of Corpus::read_file(), and Error(kMemory) where the system refuses a thread. After an error
// `scan` has counted a part of a file and must not be used.
void scan_corpus(
    DocumentBatches& documents, const std::string& action, int num_threads, CorpusScan& scan,
    const std::function<void(uint64_t hash, uint64_t bytes, const SourceFile& file)>& observe,
    const std::function<void()>& after_file);

}  // namespace lmtrain
