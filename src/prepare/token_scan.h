// Passes once over files of token ids: finds where documents begin and end, hashes them, and counts
// the bytes of their text. token_files.h states the rules. A row of a table is a document
// (id_rows.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "formats/token_reference.h"
#include "text/format.h"
#include "text/source_file.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct ScannedTokens {
  // In the order of the list. For a table it is the copy of its ids (TokenScanOptions::copy).
  std::vector<ReferencedFile> files;
  std::vector<ReferencedDocument> documents;  // by file, then by token
  std::vector<uint64_t> hashes;               // hash of each document's ids
  Hash128 content;                            // hash of all documents in order
  int64_t empty_documents = 0;                // documents with no ids but control ids
  FormatCounts formats;                       // by container (id_rows.h)
  NoDocuments skipped;                        // nulls and padding of tables
  std::set<std::string> ignored_columns;      // of tables
  bool has_copies = false;                    // some of `files` were tables
};

struct TokenScanOptions {
  uint32_t id_bytes = 0;  // `width` of read_token_file_layout(), and `id_bytes` of IdFiles::open()
  std::string text_field;
  uint64_t max_document = 0;
  // The file to which the ids of all tables are copied, four bytes each. Without a table it is not
  // made.
  std::filesystem::path copy;
};

// Counts the bytes of the text that ids stand for, id by id.
class TextBytes {
 public:
  explicit TextBytes(const Tokenizer& tokenizer)
      : piece_bytes_(tokenizer.piece_bytes()), space_(tokenizer.space_in_bytes()) {}

  size_t vocab_size() const { return piece_bytes_.size(); }
  // Returns by how many bytes the next id, which must be in the vocabulary, changes the sum. It may
  // be negative: where the id completes space_in_bytes(), whose bytes together are one space.
  int64_t add(int32_t id) {
    const int64_t bytes = piece_bytes_[static_cast<size_t>(id)];
    if (space_.empty()) return bytes;
    matched_ = id == space_[matched_] ? matched_ + 1 : id == space_[0] ? 1 : 0;
    if (matched_ < space_.size()) return bytes;
    matched_ = 0;
    return bytes + 1 - static_cast<int64_t>(space_.size());
  }
  // Call it before each document.
  void restart() { matched_ = 0; }

 private:
  std::vector<uint32_t> piece_bytes_;
  std::vector<int32_t> space_;
  size_t matched_ = 0;  // how many ids of space_ came last
};

// Reads all files, checks every id against the tokenizer's vocabulary and finds the documents.
// SourceFile::format must be the container of the file (id_rows.h). `files` must have no index
// (is_token_file_index), which would be read as ids. `action` names the pass in the progress line.
// Throws Error(kData) that names file and token, or row and position, also for a file that changed
// since it was listed; Error(kIo); and StopRequested on a signal.
ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               const TokenScanOptions& options, const std::string& action);

// Fills `ids` with the tokens of the scanned file `mapped`, from its token `begin` on. Throws
// Error(kData) where the file became shorter since the scan.
void copy_document_ids(const MappedFile& mapped, const ReferencedFile& file, uint64_t begin,
                       std::span<int32_t> ids);

}  // namespace lmtrain
