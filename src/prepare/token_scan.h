// One pass over files of token ids finds where documents begin and end, hashes them, and counts the
// bytes of their text. token_files.h states the rules. Rows of tables are documents (id_rows.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "formats/token_reference.h"
#include "text/format.h"
#include "text/source_file.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct ScannedTokens {
  // In the order of the list. A table has been copied to TokenScanOptions::copy.
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
  // The ids of tables, which are not stored one behind the other there, are copied to this file,
  // four bytes each.
  std::filesystem::path copy;
};

// Counts the bytes of the text of ids, id by id.
class TextBytes {
 public:
  explicit TextBytes(const Tokenizer& tokenizer)
      : piece_bytes_(tokenizer.piece_bytes()), space_(tokenizer.space_in_bytes()) {}

  size_t vocab_size() const { return piece_bytes_.size(); }
  // Returns by how much the next id, which must be in the vocabulary, changes the sum: by less than
  // 0 where it ends the bytes that together were one space.
  int64_t add(int32_t id) {
    const int64_t bytes = piece_bytes_[static_cast<size_t>(id)];
    if (space_.empty()) return bytes;
    matched_ = id == space_[matched_] ? matched_ + 1 : id == space_[0] ? 1 : 0;
    if (matched_ < space_.size()) return bytes;
    matched_ = 0;
    return bytes + 1 - static_cast<int64_t>(space_.size());
  }
  // Begins another document.
  void restart() { matched_ = 0; }

 private:
  std::vector<uint32_t> piece_bytes_;
  std::vector<int32_t> space_;
  size_t matched_ = 0;  // ids of space_ that came last
};

// Reads all files, checks every id against the tokenizer's vocabulary and finds the documents.
// None of `files` may be an index (is_token_file_index), since it would be read as ids, and each
// has its container as its format. `action` names the pass in the progress line. Throws
// Error(kData) that names file and token, or row and position, or for a file that changed since it
// was listed; Error(kIo); and StopRequested on a signal.
ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               const TokenScanOptions& options, const std::string& action);

}  // namespace lmtrain
