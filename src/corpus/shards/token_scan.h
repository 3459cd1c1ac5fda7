// One pass over files of token ids: where documents begin and end, what they hash to, how many
// bytes their text has. token_files.h says by which rules.
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
  std::vector<ReferencedFile> files;
  std::vector<ReferencedDocument> documents;  // in order of files, then tokens
  std::vector<uint64_t> hashes;               // of each document's ids
  Hash128 content;                            // of all of them in order
  int64_t empty_documents = 0;                // of nothing but control ids
};

// Bytes of text that each id stands for; the sum over a document is the size of its text, but where
// the tokenizer normalised it.
std::vector<uint32_t> bytes_of_pieces(const Tokenizer& tokenizer);

// Reads all files, checks every id against the tokenizer's vocabulary and finds the documents.
// `action` names the pass in the progress line. Error(kData) with file and token; throws
// StopRequested on a signal.
ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               const std::string& action);

}  // namespace lmtrain
