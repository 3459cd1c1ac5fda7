// Counts words, the input of the BPE trainers, and splits text into words as sentencepiece's BPE
// does. A word is a run of spaces and the run of characters of one script after it. Punctuation,
// digits, newlines, tabs and symbols are one script, "common". A word is cut at the first character
// end from 256 bytes on. No piece of a vocabulary reaches beyond a word, as in sentencepiece
// (split_by_whitespace, split_by_unicode_script).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lmtrain {

using WordCounts = std::vector<std::pair<std::string, int64_t>>;

// Counts words; one thread at a time may use it. Memory: a distinct word takes its bytes and 60.
class WordCounter {
 public:
  // Adds the words of `text`, which may be any bytes. NUL, U+2581 and malformed bytes, which no
  // piece can hold, end a word and belong to no word.
  void add(std::string_view text);
  // Adds `count` to the count of a word, which may be any bytes.
  void add_word(std::string_view word, int64_t count = 1);
  // Adds the words that another counter has counted.
  void add(const WordCounter& other);
  // Returns words and counts in byte order, so that the order of the texts does not matter.
  WordCounts sorted() const;

 private:
  struct Entry {
    const char* text;
    size_t size;
    int64_t count;

    std::string_view word() const { return {text, size}; }
  };
  struct Slot {
    uint32_t tag = 0;    // bits of the hash
    uint32_t entry = 0;  // counted from 1; 0: the slot is empty
  };

  const char* store(std::string_view word);
  void grow();

  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;  // in the last block
  size_t num_free_ = 0;
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
