// Cuts text as the regular expressions of well-known tokenizers do, several times faster than an
// engine for expressions: GPT-2 (GPT-NeoX, OLMo, SmolLM), cl100k (Llama 3, OLMo 2), Qwen 2 to 3.5,
// o200k and Tekken. The splits are exactly SplitRegex's. A scanner is immutable, so threads may
// share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tokenizer/character_flags.h"

namespace lmtrain {

// Patterns, and the beginnings of two patterns, as the files of these tokenizers spell them. The
// pre-tokenizer ByteLevel has the pattern of GPT-2 built in.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kO200kWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)";
inline constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)";

class SplitScanner {
 public:
  // Returns the scanner of a pattern in Oniguruma's syntax, or nothing for any other pattern.
  static std::optional<SplitScanner> of(std::string_view pattern);

  // Whether the pattern matches everywhere, so that nothing lies between two matches.
  bool matches_all() const { return words_ != Words::kNone; }

  // Cuts `text`, which is valid UTF-8, from byte `from` on, where a split must begin. A split is a
  // match, or the text between two matches. Stores splits until `splits` is full or the text ends,
  // moves `from` behind the last split, and returns their number; 0 only at the end of the text.
  size_t scan(std::string_view text, size_t& from, std::span<std::string_view> splits) const;

 private:
  // The run of letters of a word, and what may stand before it.
  enum class Words : uint8_t {
    kNone,         // the pattern matches numbers only
    kSpacePrefix,  //  ?\p{L}+
    kAnyPrefix,    // [^\r\n\p{L}\p{N}]?\p{L}+
    kCased         // kAnyPrefix, and upper case ends a run of lower case
  };
  enum class Contractions : uint8_t { kNone, kLowerCase, kAnyCase };
  struct Text;

  size_t scan_numbers(std::string_view text, size_t& from,
                      std::span<std::string_view> splits) const;
  template <Words kWords>
  size_t scan_words(std::string_view text, size_t& from, std::span<std::string_view> splits) const;
  template <Words kWords>
  uint64_t ends_in_window(Text text, const char* at) const;
  uint64_t number_starts(uint64_t numbers, uint64_t behind_blank) const;
  void cut_contractions(Text text, const char* at, uint64_t quotes, uint64_t letters,
                        uint64_t& starts) const;
  template <Words kWords>
  const char* split_end(Text text, const char* at) const;
  const char* cased_end(Text text, const char* at, const char* next, uint8_t flags) const;
  const char* contraction_end(Text text, const char* quote) const;
  const char* numbers_end(Text text, const char* at, size_t most) const;
  const char* spaces_end(Text text, const char* at) const;

  const CharacterFlags* characters_ = nullptr;
  Words words_ = Words::kNone;
  Contractions contractions_ = Contractions::kNone;
  bool contractions_end_words_ = false;  // as in o200k; else they are splits
  uint8_t letters_ = CharacterFlags::kLetter;
  size_t most_numbers_ = 0;  // in one split
  bool numbers_take_space_ = false;
  bool punctuation_takes_newlines_ = false;
  bool punctuation_takes_slashes_ = false;
  bool newlines_end_spaces_ = false;
};

}  // namespace lmtrain
