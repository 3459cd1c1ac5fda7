// Counts words, the input of the BPE trainers, and splits text into those of sentencepiece's BPE: a
// word is a run of spaces with the run of characters of one script after it; punctuation, digits,
// newlines, tabs and symbols are a script of their own ("common"). A word of more than 256 bytes is
// cut. No piece of a vocabulary reaches beyond a word, as in sentencepiece (split_by_whitespace,
// split_by_unicode_script).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lmtrain {

using WordCounts = std::vector<std::pair<std::string, int64_t>>;

class WordCounter {
 public:
  // Adds the words of `text`, which may be any bytes. Characters that no piece can hold (NUL,
  // U+2581, malformed bytes) end a word and belong to none.
  void add(std::string_view text);
  // Counts a word that another rule has cut.
  void add_word(std::string_view word);
  // Returns the words in byte order, so that nothing depends on the order of the texts.
  WordCounts sorted() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

// Coarse scripts: blocks of the Unicode standard that words are made of. Combining marks and
// joiners take the script of what they follow.
enum class Script : uint8_t {
  kSpace,
  kCommon,
  kInherited,
  kLatin,
  kGreek,
  kCyrillic,
  kHan,
  kHangul,
  kOther
};
// A script; two blocks of kOther differ in `block`, their first code point.
struct ScriptOf {
  Script script = Script::kCommon;
  uint32_t block = 0;
  bool operator==(const ScriptOf&) const = default;
};
ScriptOf script_of(char32_t code_point);

}  // namespace lmtrain
