// Encodes text by a unigram language model: the most likely pieces, by Viterbi's algorithm. The ids
// are the same as sentencepiece gives (EncodeOptimized of unigram_model.cc, v0.2.3). Sums are
// rounded in the same way, so that ties go to the same pieces. Debian's sentencepiece, 0.1.97,
// rounds other sums.
//
// An encoder is immutable, so threads may share it. Each thread needs its own Scratch. Text can be
// cut wherever no piece reaches across; the longest stretch between cuts bounds Scratch's memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/text_normalizer.h"

namespace lmtrain {

class UnigramEncoder {
 public:
  // Returns why an encoder of this model would not give sentencepiece's ids; nothing if it would.
  static std::optional<std::string> why_not_exact(const SentencePieceModel& model);

  // Requires that why_not_exact(model) and model_problem(model) find nothing. Copies the model.
  explicit UnigramEncoder(const SentencePieceModel& model);

  class Scratch {
   private:
    friend class UnigramEncoder;
    // The best pieces up to a position, from the last cut on.
    struct Way {
      float score = 0;
      int32_t id = -1;     // the last piece
      uint32_t begin = 0;  // where the last piece begins
    };
    std::string text_;
    std::vector<Way> ways_;  // by position, from the last cut on
    std::vector<int32_t> ids_;
    size_t first_ = 0;  // index in `ids` of the text's first id
  };

  // Appends the ids of `text`, which may be any bytes; a malformed byte is read as U+FFFD. The
  // model's dummy prefix is added only if `adds_prefix`. Throws Error(kData) for 4 GiB of text that
  // cannot be cut.
  void encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids,
              bool adds_prefix = true) const;

 private:
  void close(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;

  TextNormalizer normalizer_;
  ByteTrie pieces_;
  float unknown_score_ = 0;
  int32_t unk_id_ = 0;
  bool has_bytes_ = false;
  bool escapes_spaces_ = true;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace lmtrain
