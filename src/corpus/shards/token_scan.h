// One pass over files of token ids finds where documents begin and end, hashes them, and counts the
// bytes of their text. token_files.h states the rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "corpus/readers/source_file.h"
#include "corpus/tokenizer/tokenizer.h"
#include "formats/token_reference.h"

namespace lmtrain {

struct ScannedTokens {
  std::vector<ReferencedFile> files;          // in the order of the list
  std::vector<ReferencedDocument> documents;  // by file, then by token
  std::vector<uint64_t> hashes;               // hash of each document's ids
  Hash128 content;                            // hash of all documents in order
  int64_t empty_documents = 0;                // documents with no ids but control ids
};

// Reads all files, checks every id against the tokenizer's vocabulary and finds the documents.
// None of `files` may be an index (is_token_file_index), since it would be read as ids. `action`
// names the pass in the progress line. Throws Error(kData) that names file and token, or for a file
// that changed since it was listed; Error(kIo); and StopRequested on a signal.
ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               const std::string& action);

}  // namespace lmtrain
