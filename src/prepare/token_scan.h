// One pass over files of token ids finds where documents begin and end, hashes them, and counts the
// bytes of their text. token_files.h states the rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "formats/token_reference.h"
#include "text/source_file.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct ScannedTokens {
  std::vector<ReferencedFile> files;          // in the order of the list
  std::vector<ReferencedDocument> documents;  // by file, then by token
  std::vector<uint64_t> hashes;               // hash of each document's ids
  Hash128 content;                            // hash of all documents in order
  int64_t empty_documents = 0;                // documents with no ids but control ids
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
// None of `files` may be an index (is_token_file_index), since it would be read as ids. `id_bytes`
// is `width` of read_token_file_layout(). `action` names the pass in the progress line. Throws
// Error(kData) that names file and token, or for a file that changed since it was listed;
// Error(kIo); and StopRequested on a signal.
ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               uint32_t id_bytes, const std::string& action);

}  // namespace lmtrain
