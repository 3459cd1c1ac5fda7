// A corpus is a list of files with the way to read them. One pass over its text finds, in constant
// memory, counts, the fingerprint of the content, and the sizes from which the tokenizer's sample
// is chosen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/progress_bar.h"
#include "config/config.h"
#include "text/source_file.h"
#include "text/format.h"

namespace lmtrain {

// A document is in corpus.files[file], at this position (readers.h). Locations ascend in the order
// of documents.
struct DocumentLocation {
  size_t file = 0;
  int64_t position = 0;
};

struct Corpus {
  std::vector<SourceFile> files;          // read in the format of each
  DataFormat format = DataFormat::kAuto;  // as configured: decides that of each file (format.h)
  std::string text_field;
  // A document may have at most this many bytes of text (readers.h).
  uint64_t max_document = static_cast<uint64_t>(DataConfig().max_document);

  // A bad line of JSON lines ends a pass, or is left out.
  OnBadLine on_bad_line = OnBadLine::kStop;

  uint64_t total_bytes() const;  // of the files as they lie on disk
  // Calls `visit` with the text of every document in order, from `from` on; files before it are not
  // opened. Requires that the format of each file is decided. Returns how many blank lines and
  // nulls it has read; those before `from` in its file are among them, except in row groups and
  // batches that a table's reader passes over. Throws StopRequested on a signal (progress_bar.h),
  // the errors of the readers (readers.h) and of `visit`, Error(kData) for a file that changed
  // since it was listed, and Error(kMemory) naming the file at which memory ran out.
  NoDocuments for_each(
      ProgressBar& progress,
      const std::function<void(std::string_view text, const DocumentLocation& location)>& visit,
      const DocumentLocation& from = {}) const;

 private:
  NoDocuments read_file_documents(
      size_t index, int64_t first, ProgressBar& progress,
      const std::function<void(std::string_view text, const DocumentLocation& location)>& visit)
      const;
};

// Throws Error(kMemory) for a document of this file that memory does not hold, and says what may be
// done.
[[noreturn]] void fail_out_of_memory(const std::filesystem::path& path);

// CorpusCounts are what a pass reports to people.
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

// Selects the documents that train the tokenizer: those whose hashes (another hash than the
// split's) lie in the lowest of 65536 ranges, as many ranges as together reach `budget` bytes, so
// that the documents are spread over the corpus. The caller stops at the budget, so the last
// documents of the corpus may be cut or left out.
class Sample {
 public:
  // Counts a document of `bytes` bytes of text; `hash` is its text_hash().
  void observe(uint64_t hash, uint64_t bytes);
  // Decides, once all documents were observed, which are selected: at least `budget` bytes of text
  // where there are so many.
  void choose(uint64_t budget);
  // Returns whether the document with this hash was selected. Before choose() none is.
  bool selects(uint64_t hash) const;

  const std::vector<uint64_t>& bytes() const { return bytes_; }  // observed, by range of hashes
  // Takes the place of all observe() calls before; choose() must follow.
  void restore(std::vector<uint64_t> bytes) { bytes_ = std::move(bytes); }

 private:
  static constexpr int kBits = 16;
  static uint64_t bucket(uint64_t hash);
  std::vector<uint64_t> bytes_ = std::vector<uint64_t>(size_t{1} << kBits);
  uint64_t num_buckets_ = 0;  // selected
};

// Throws Error(kData) where more than 0.1 % of the lines of JSON lines were skipped as bad ones.
// `pointer` names the list: "/data/train".
void require_few_bad_lines(const NoDocuments& skipped, const std::string& pointer);
// Returns "3 of 5000 lines of JSON lines were skipped (...): FILE:LINE: ...".
std::string describe_bad_lines(const NoDocuments& skipped);

// Returns what is odd about the text: ", 3 empty documents, 2 nulls skipped"; empty where nothing
// is.
std::string describe_oddities(const CorpusCounts& counts);
// Warns of text that is not as it should be: documents that are not UTF-8, and lines that were
// skipped. `pointer` names the list.
void warn_of_text(const CorpusCounts& counts, const std::string& pointer);

struct CorpusScan {
  size_t next_file = 0;                 // all before it were scanned
  Hash128 content = Hasher().digest();  // hash of every document in order
  CorpusCounts counts;
};

// Reads the files from `scan.next_file` on and brings `scan` up to date. Calls `observe` with the
// text_hash(), the size in bytes and the file of each document, and `after_file` when a file is
// done and `scan` counts it. `action` names the pass in the progress line. Throws what
// Corpus::for_each() throws; `scan` has then counted a part of a file and must not be continued.
void scan_corpus(
    const Corpus& corpus, const std::string& action, CorpusScan& scan,
    const std::function<void(uint64_t hash, uint64_t bytes, const SourceFile& file)>& observe,
    const std::function<void()>& after_file);

}  // namespace lmtrain
