// A list of files with the way to read them, and what one pass over their text tells: counts, the
// fingerprint of the content, and what the tokenizer's sample needs, in constant memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/terminal/progress_bar.h"
#include "corpus/readers/source_file.h"
#include "corpus/sources/format.h"

namespace lmtrain {

// Where a document is: in corpus.files[file], at this position (readers.h). Locations ascend in the
// order of documents.
struct DocumentLocation {
  size_t file = 0;
  int64_t position = 0;
};

struct Corpus {
  std::vector<SourceFile> files;          // read in the format of each
  DataFormat format = DataFormat::kAuto;  // as configured: decides that of each file (format.h)
  std::string text_field;

  uint64_t total_bytes() const;  // of the files as they lie on disk
  // Calls `visit` with the text of every document in order, from `from` on; files before it are not
  // opened. Returns the counts of what it met that is no document. Throws StopRequested on a signal
  // (progress_bar.h) and the errors of the readers (readers.h).
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

// Counts for people.
struct CorpusCounts {
  int64_t documents = 0;
  int64_t bytes = 0;
  int64_t empty_documents = 0;
  int64_t invalid_documents = 0;  // not valid UTF-8
  int64_t nul_documents = 0;      // with a NUL byte
  NoDocuments skipped;
  FormatCounts formats;  // of the files that were read to their end
};

// Which documents train the tokenizer: those of the smallest hashes (of another hash than the
// split's) that together reach `budget` bytes, so that they are spread over the corpus. The last of
// them may be cut.
class Sample {
 public:
  // Counts a document of `bytes` bytes of text; `hash` is its text_hash().
  void observe(uint64_t hash, uint64_t bytes);
  // Decides, once all documents were observed, which are selected: about `budget` bytes of text.
  void choose(uint64_t budget);
  // Whether the document with this hash was selected. Before choose() none is.
  bool selects(uint64_t hash) const;

  const std::vector<uint64_t>& bytes() const { return bytes_; }  // observed, by range of hashes
  void restore(std::vector<uint64_t> bytes) { bytes_ = std::move(bytes); }

 private:
  static constexpr int kBits = 16;
  static uint64_t bucket(uint64_t hash);
  std::vector<uint64_t> bytes_ = std::vector<uint64_t>(size_t{1} << kBits);
  uint64_t num_buckets_ = 0;  // selected
};

struct CorpusScan {
  size_t next_file = 0;                 // all before it were scanned
  Hash128 content = Hasher().digest();  // of every document in order
  CorpusCounts counts;
};

// Reads the files from `scan.next_file` on and brings `scan` up to date. Calls `observe` with the
// text_hash, the size in bytes and the file of each document, and `after_file` when a file is done
// and `scan` counts it. `action` names the pass in the progress line.
void scan_corpus(
    const Corpus& corpus, const std::string& action, CorpusScan& scan,
    const std::function<void(uint64_t hash, uint64_t bytes, const SourceFile& file)>& observe,
    const std::function<void()>& after_file);

}  // namespace lmtrain
