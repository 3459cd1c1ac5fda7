// Text as counted words, the input of the BPE trainer. A word is a run of spaces with the run of
// characters of one script after it; punctuation, digits, newlines, tabs and symbols are a script
// of their own ("common"). No piece of a vocabulary reaches beyond a word, as in sentencepiece
// (split_by_whitespace, split_by_unicode_script).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lmtrain {

using WordCounts = std::vector<std::pair<std::string, int64_t>>;

class WordCounter {
 public:
  // Characters that no piece can hold (NUL, U+2581, malformed bytes) end a word and belong to none.
  void add(std::string_view text);
  // In byte order of word, so that nothing depends on the order of the texts.
  WordCounts sorted() const;

 private:
  std::unordered_map<std::string, int64_t> counts_;
};

// Scripts, coarsely: blocks of the Unicode standard that words are made of. Combining marks and
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
// kOther blocks differ by `block`.
struct ScriptOf {
  Script script = Script::kCommon;
  uint32_t block = 0;
  bool operator==(const ScriptOf&) const = default;
};
ScriptOf script_of(char32_t code_point);

}  // namespace lmtrain
