// Text to token ids on all cores, results in the order of the documents, in bounded memory. A
// document of which only blocks are held out becomes several.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "corpus/shards/held_out.h"
#include "corpus/sources/corpus.h"
#include "corpus/tokenizer/tokenizer.h"

namespace lmtrain {

struct EncodedDocument {
  std::vector<int32_t> ids;
  Hash128 hash;  // of its text
  uint64_t bytes = 0;
  DocumentLocation location;  // of the document in the corpus that it is, or is a part of
  bool held_out = false;
  // With the last part of a document: the hash of the text of the whole document.
  std::optional<Hash128> whole;
};

struct DocumentEncoder {
  const Tokenizer& tokenizer;
  bool add_bos = true;
  bool add_eos = true;
  int num_threads = 1;

  // Calls `sink` on the calling thread for each document of `corpus` in order, from `from` on; a
  // document that `held_out` cuts comes part by part. `action` names the pass in the progress line.
  // Throws what Corpus::for_each throws, and Error(kData) where the tokenizer lacks BOS or EOS.
  void encode(const Corpus& corpus, const HoldOut& held_out, const std::string& action,
              const std::function<void(const EncodedDocument&)>& sink,
              const DocumentLocation& from = {}) const;
};

}  // namespace lmtrain
