// sentencepiece's normal form of a text (normalizer.cc of v0.2.3), with one difference: a space is
// written as a space, not as U+2581, and U+2581 in a text becomes a space. A malformed byte becomes
// U+FFFD. A normalizer is immutable, so threads may share it.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/byte_trie.h"
#include "tokenizer/character_table.h"
#include "tokenizer/model_proto.h"

namespace lmtrain {

// Returns a copy of `piece` with a space for each U+2581.
std::string with_spaces(std::string_view piece);

class TextNormalizer {
 public:
  // Requires that model_problem(model) finds nothing. Keeps no reference to `model`. If the model
  // does not escape spaces, U+2581 in a text stays U+2581.
  explicit TextNormalizer(const SentencePieceModel& model);

  // Returns the normal form of any bytes. The result views `text` or `buffer`. The model's dummy
  // prefix is added only if `adds_prefix`.
  std::string_view normalize(std::string_view text, bool adds_prefix, std::string& buffer) const;

 private:
  std::string_view next(std::string_view text, size_t& size) const;
  void append(std::string_view text, std::string& buffer) const;

  ByteTrie user_defined_;
  CharacterTable table_;
  bool has_prefix_;
  bool prefix_is_suffix_;
  bool removes_spaces_;
  bool escapes_spaces_;
};

}  // namespace lmtrain
