// sentencepiece's normal form of a text (normalizer.cc of v0.2.3), in our spelling: a space is a
// space where the model spells it U+2581, and U+2581 in a text is a space too. A malformed byte is
// U+FFFD. A normalizer is immutable, so threads may share it.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/byte_trie.h"
#include "tokenizer/character_table.h"
#include "tokenizer/model_proto.h"

namespace lmtrain {

// Returns a piece of a model in our spelling.
std::string with_spaces(std::string_view piece);

class TextNormalizer {
 public:
  // Requires that model_problem(model) finds nothing. Copies what it needs of the model. A model
  // that leaves spaces as they are has no spelling of ours: its text keeps U+2581.
  explicit TextNormalizer(const SentencePieceModel& model);

  // Returns the normal form of any bytes: `text` itself, or the content of `buffer`. The dummy
  // prefix of the model is added only where `adds_prefix` is true.
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
