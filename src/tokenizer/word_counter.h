// Counts words, the input of the BPE trainers, and splits text into words as sentencepiece's BPE
// does. A word is a run of spaces and the run of characters of one script after it. Punctuation,
// digits, newlines, tabs and symbols are one script, "common". A word is cut at the first character
// end from 256 bytes on. No piece of a vocabulary reaches beyond a word, as in sentencepiece
// (split_by_whitespace, split_by_unicode_script).
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
  // Adds the words of `text`, which may be any bytes. NUL, U+2581 and malformed bytes, which no
  // piece can hold, end a word and belong to no word.
  void add(std::string_view text);
  // Counts one word, however it was cut out of its text.
  void add_word(std::string_view word);
  // Returns words and counts in byte order, so that the order of the texts does not matter.
  WordCounts sorted() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

// A Script is a group of Unicode blocks. kInherited are combining marks and joiners, which take the
// script of the character before them.
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
// The script of a character. In kOther `block` is the first code point of the character's block,
// so that each block is a script of its own.
struct ScriptOf {
  Script script = Script::kCommon;
  uint32_t block = 0;
  bool operator==(const ScriptOf&) const = default;
};
ScriptOf script_of(char32_t code_point);

}  // namespace lmtrain
