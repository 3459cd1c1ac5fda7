// Encodes text to token ids on several threads, in bounded memory; the results come in the order of
// the documents. A document whose blocks are partly held out becomes several parts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "prepare/held_out.h"
#include "text/document_batches.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct EncodedDocument {
  std::vector<int32_t> ids;   // with BOS and EOS as asked for, in each part of a document too
  Hash128 hash;               // hash128() of its text; 0 for a part that is trained on
  uint64_t bytes = 0;         // of its text
  DocumentLocation location;  // place in the corpus of the document, for a part too
  bool held_out = false;
  // hash128() of the text of the whole document: set for an uncut document, and for the last part
  // of a cut one.
  std::optional<Hash128> whole;
};

struct DocumentEncoder {
  const Tokenizer& tokenizer;
  bool add_bos = true;
  bool add_eos = true;
  int num_threads = 1;  // the calling one is counted; less than 1 counts as 1

  // Calls `sink` on the calling thread for each document in order, from `from` on, or for each part
  // of a document that `held_out` cuts. `action` names the pass in the progress line. Returns the
  // sum of what Corpus::read_file() returns for the files that it read. Throws the errors of
  // Corpus::read_file() and of `sink`, and:
  //   Error(kData)    the tokenizer lacks a BOS or EOS that is asked for, or cannot encode a text
  //   Error(kMemory)  memory ran out, or the system refused a thread
  NoDocuments encode(DocumentBatches& documents, const HoldOut& held_out, const std::string& action,
                     const std::function<void(const EncodedDocument&)>& sink,
                     const DocumentLocation& from = {}) const;
};

}  // namespace lmtrain
