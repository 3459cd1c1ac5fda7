#include "tokenizer/word_counter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/hash.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

constexpr char32_t kSpaceMarkCodePoint = 0x2581;  // what sentencepiece writes for a space
constexpr size_t kLongestWord = 256;  // bytes; keeps the trainer linear in text without spaces

struct UnicodeBlock {
  char32_t first;
  char32_t last;
  Script script;
};

// By first code point. Chinese, Japanese and Korean ideographs and kana count as one script, as in
// sentencepiece.
constexpr UnicodeBlock kBlocks[] = {
    {0x0020, 0x0020, Script::kSpace},     {0x0041, 0x005A, Script::kLatin},
    {0x0061, 0x007A, Script::kLatin},     {0x00AA, 0x00AA, Script::kLatin},
    {0x00BA, 0x00BA, Script::kLatin},     {0x00C0, 0x00D6, Script::kLatin},
    {0x00D8, 0x00F6, Script::kLatin},     {0x00F8, 0x02B8, Script::kLatin},
    {0x0300, 0x036F, Script::kInherited}, {0x0370, 0x03FF, Script::kGreek},
    {0x0400, 0x0482, Script::kCyrillic},  {0x0483, 0x0489, Script::kInherited},
    {0x048A, 0x052F, Script::kCyrillic},  {0x0530, 0x058F, Script::kOther},
    {0x0590, 0x05FF, Script::kOther},     {0x0600, 0x07BF, Script::kOther},
    {0x07C0, 0x08FF, Script::kOther},     {0x0900, 0x097F, Script::kOther},
    {0x0980, 0x09FF, Script::kOther},     {0x0A00, 0x0A7F, Script::kOther},
    {0x0A80, 0x0AFF, Script::kOther},     {0x0B00, 0x0B7F, Script::kOther},
    {0x0B80, 0x0BFF, Script::kOther},     {0x0C00, 0x0C7F, Script::kOther},
    {0x0C80, 0x0CFF, Script::kOther},     {0x0D00, 0x0D7F, Script::kOther},
    {0x0D80, 0x0DFF, Script::kOther},     {0x0E00, 0x0E7F, Script::kOther},
    {0x0E80, 0x0EFF, Script::kOther},     {0x0F00, 0x0FFF, Script::kOther},
    {0x1000, 0x109F, Script::kOther},     {0x10A0, 0x10FF, Script::kOther},
    {0x1100, 0x11FF, Script::kHangul},    {0x1200, 0x139F, Script::kOther},
    {0x13A0, 0x13FF, Script::kOther},     {0x1780, 0x17FF, Script::kOther},
    {0x1800, 0x18AF, Script::kOther},     {0x1AB0, 0x1AFF, Script::kInherited},
    {0x1C80, 0x1C8F, Script::kCyrillic},  {0x1DC0, 0x1DFF, Script::kInherited},
    {0x1E00, 0x1EFF, Script::kLatin},     {0x1F00, 0x1FFF, Script::kGreek},
    {0x200C, 0x200D, Script::kInherited}, {0x20D0, 0x20FF, Script::kInherited},
    {0x2C60, 0x2C7F, Script::kLatin},     {0x2DE0, 0x2DFF, Script::kCyrillic},
    {0x3005, 0x3007, Script::kHan},       {0x3041, 0x30FF, Script::kHan},
    {0x3131, 0x318E, Script::kHangul},    {0x31F0, 0x31FF, Script::kHan},
    {0x3400, 0x4DBF, Script::kHan},       {0x4E00, 0x9FFF, Script::kHan},
    {0xA640, 0xA69F, Script::kCyrillic},  {0xA722, 0xA7FF, Script::kLatin},
    {0xAC00, 0xD7A3, Script::kHangul},    {0xF900, 0xFAFF, Script::kHan},
    {0xFB50, 0xFDFF, Script::kOther},     {0xFE00, 0xFE0F, Script::kInherited},
    {0xFE70, 0xFEFC, Script::kOther},     {0xFF21, 0xFF3A, Script::kLatin},
    {0xFF41, 0xFF5A, Script::kLatin},     {0xFF66, 0xFF9D, Script::kHan},
    {0x20000, 0x3FFFF, Script::kHan},
};

constexpr size_t kNumAscii = 128;

constexpr std::array<Script, kNumAscii> ascii_scripts() {
  std::array<Script, kNumAscii> scripts{};
  scripts.fill(Script::kCommon);
  for (const UnicodeBlock& block : kBlocks) {
    for (char32_t c = block.first; c <= block.last && c < kNumAscii; ++c) scripts[c] = block.script;
  }
  return scripts;
}
constexpr std::array<Script, kNumAscii> kAsciiScripts = ascii_scripts();

// NUL is of no script here.
bool is_ascii_of(char c, Script script) {
  const auto byte = static_cast<unsigned char>(c);
  return byte != 0 && byte < kNumAscii && kAsciiScripts[byte] == script;
}

uint64_t word_hash(std::string_view word) {
  uint64_t hash = word.size();
  uint64_t part = 0;
  while (word.size() > sizeof part) {
    std::memcpy(&part, word.data(), sizeof part);
    hash = mix64(hash ^ part);
    word.remove_prefix(sizeof part);
  }
  part = 0;
  if (!word.empty()) std::memcpy(&part, word.data(), word.size());
  return mix64(hash ^ part);
}

}  // namespace

ScriptOf script_of(char32_t code_point) {
  const UnicodeBlock* block =
      std::upper_bound(std::begin(kBlocks), std::end(kBlocks), code_point,
                       [](char32_t c, const UnicodeBlock& b) { return c < b.first; });
  if (block == std::begin(kBlocks) || code_point > (--block)->last) return {};
  const bool is_other = block->script == Script::kOther;
  return {block->script, is_other ? static_cast<uint32_t>(block->first) : 0};
}

void WordCounter::add(std::string_view text) {
  size_t begin = 0;  // of the word
  size_t end = 0;
  ScriptOf script{Script::kSpace, 0};  // of the word so far
  const auto finish_word = [&] {
    if (end > begin) add_word(text.substr(begin, end - begin));
    begin = end;
    script = {Script::kSpace, 0};
  };
  while (end < text.size()) {
    const auto byte = static_cast<unsigned char>(text[end]);
    if (byte != 0 && byte < kNumAscii) {
      const ScriptOf next{kAsciiScripts[byte], 0};
      const bool goes_on = script.script == Script::kSpace || next == script;
      if (!goes_on || end - begin >= kLongestWord) finish_word();
      script = next;
      const size_t most = std::min(text.size(), begin + kLongestWord);
      do {
        ++end;
      } while (end < most && is_ascii_of(text[end], script.script));
      continue;
    }
    char32_t code_point = 0;
    const size_t size = decode_utf8(text.substr(end), code_point);
    if (size == 0 || code_point == 0 || code_point == kSpaceMarkCodePoint) {
      finish_word();
      end += std::max<size_t>(size, 1);
      begin = end;
      continue;
    }
    const ScriptOf next = script_of(code_point);
    const bool is_mark = next.script == Script::kInherited && script.script != Script::kSpace;
    const bool goes_on = is_mark || script.script == Script::kSpace || next == script;
    if (!goes_on || end - begin >= kLongestWord) finish_word();
    if (!is_mark) script = next;
    end += size;
  }
  finish_word();
}

void WordCounter::add_word(std::string_view word, int64_t count) {
  if (2 * (entries_.size() + 1) > slots_.size()) grow();
  const uint64_t hash = word_hash(word);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t index = hash & mask;; index = (index + 1) & mask) {
    Slot& slot = slots_[index];
    if (slot.entry == 0) {
      entries_.push_back({store(word), word.size(), count});
      slot = {tag, static_cast<uint32_t>(entries_.size())};
      return;
    }
    Entry& entry = entries_[slot.entry - 1];
    if (slot.tag == tag && entry.word() == word) {
      entry.count += count;
      return;
    }
  }
}

void WordCounter::add(const WordCounter& other) {
  for (const Entry& entry : other.entries_) add_word(entry.word(), entry.count);
}

const char* WordCounter::store(std::string_view word) {
  constexpr size_t kBlock = size_t{1} << 20;
  if (word.size() > num_free_) {
    num_free_ = std::max(kBlock, word.size());
    free_ = blocks_.emplace_back(std::make_unique_for_overwrite<char[]>(num_free_)).get();
  }
  char* const text = free_;
  std::copy(word.begin(), word.end(), text);
  free_ += word.size();
  num_free_ -= word.size();
  return text;
}

void WordCounter::grow() {
  std::vector<Slot>(std::max<size_t>(1024, 2 * slots_.size())).swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const uint64_t hash = word_hash(entries_[i].word());
    size_t index = hash & mask;
    while (slots_[index].entry != 0) index = (index + 1) & mask;
    slots_[index] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(i + 1)};
  }
}

WordCounts WordCounter::sorted() const {
  struct Key {
    uint64_t head;  // the first 8 bytes, ordered like them
    const Entry* entry;
  };
  std::vector<Key> keys;
  keys.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    uint64_t head = 0;
    for (size_t i = 0; i < sizeof head; ++i)
      head = head << 8 | (i < entry.size ? static_cast<unsigned char>(entry.text[i]) : 0U);
    keys.push_back({head, &entry});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return a.head != b.head ? a.head < b.head : a.entry->word() < b.entry->word();
  });
  WordCounts words;
  words.reserve(keys.size());
  for (const Key& key : keys) words.emplace_back(key.entry->word(), key.entry->count);
  return words;
}

}  // namespace lmtrain
