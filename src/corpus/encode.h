// Text to token ids on all cores, results in the order of the documents, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "corpus/corpus.h"
#include "corpus/tokenizer.h"

namespace lmtrain {

struct EncodedDocument {
  std::vector<int32_t> ids;
  Hash128 hash;  // of its text
  uint64_t bytes = 0;
  DocumentPlace place;
};

struct DocumentEncoder {
  const Tokenizer& tokenizer;
  bool add_bos = true;
  bool add_eos = true;
  int num_threads = 1;

  // Calls `sink` on the calling thread for each document in order, from `from` on.
  void encode(const Corpus& corpus, const std::string& action,
              const std::function<void(const EncodedDocument&)>& sink,
              const DocumentPlace& from = {}) const;
};

}  // namespace lmtrain
