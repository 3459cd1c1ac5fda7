// Encodes text by a unigram language model with the ids of sentencepiece (EncodeOptimized of
// unigram_model.cc, v0.2.3): the most likely pieces, by Viterbi's algorithm. Sums are rounded as
// there, so that ties are decided alike; Debian's library, 0.1.97, rounds others.
//
// An encoder is immutable, so threads may share it; each thread brings a scratch of its own, whose
// memory is bounded by the longest text without a place that no piece reaches across.
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
  // Returns why an encoder of this model would not give sentencepiece's ids; nothing when it does.
  static std::optional<std::string> why_not_exact(const SentencePieceModel& model);

  // Requires that why_not_exact(model) and model_problem(model) find nothing. Copies what it needs.
  explicit UnigramEncoder(const SentencePieceModel& model);

  class Scratch {
   private:
    friend class UnigramEncoder;
    // The best way to the end of a position, counted from the beginning of what is open.
    struct Way {
      float score = 0;
      int32_t id = -1;
      uint32_t begin = 0;  // of its last piece
    };
    std::string text_;
    std::vector<Way> ways_;
    std::vector<int32_t> ids_;
    size_t first_ = 0;  // id of the text, among those of others
  };

  // Appends the ids of `text`, which may be any bytes: a malformed byte is read as U+FFFD. The
  // model's dummy prefix is added only where `adds_prefix` is true.
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
