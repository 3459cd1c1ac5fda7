#include "tokenizer/split_scanner.h"

#include <array>
#include <initializer_list>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>

#include <bit>
#endif

namespace lmtrain {
namespace {

using Flags = CharacterFlags;

constexpr std::array<uint8_t, 128> kAscii = [] {
  std::array<uint8_t, 128> table{};
  for (unsigned c = 0; c < table.size(); ++c)
    table[c] = Flags::of_ascii(static_cast<unsigned char>(c));
  return table;
}();

struct Character {
  uint8_t flags;
  uint8_t size;  // in bytes
};

unsigned byte_at(const char* at) { return static_cast<unsigned char>(*at); }
bool is_ascii(const char* at) { return byte_at(at) < 0x80; }

// Returns the character at `at`, which is valid UTF-8 and not ASCII.
inline Character wide_character(const char* at, const Flags& flags) {
  const auto tail = [&](int i) { return char32_t{byte_at(at + i) & 0x3FU}; };
  const char32_t lead = byte_at(at);
  if (lead < 0xE0) return {flags.of((lead & 0x1FU) << 6 | tail(1)), 2};
  if (lead < 0xF0) return {flags.of((lead & 0xFU) << 12 | tail(1) << 6 | tail(2)), 3};
  return {flags.of((lead & 7U) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3)), 4};
}

inline Character character_at(const char* at, const Flags& flags) {
  if (is_ascii(at)) return {kAscii[byte_at(at)], 1};
  return wide_character(at, flags);
}

#if defined(__SSE2__)
constexpr std::ptrdiff_t kVector = 16;

// Returns how many of the 16 bytes at `at`, up to any other, are in [first, last] after `| set`.
unsigned count_between(const char* at, char set, char first, char last) {
  const __m128i bytes =
      _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), _mm_set1_epi8(set));
  // Bytes that are not ASCII are negative.
  const __m128i is_outside = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(first)),
                                          _mm_cmpgt_epi8(bytes, _mm_set1_epi8(last)));
  const auto outside = static_cast<unsigned>(_mm_movemask_epi8(is_outside));
  return static_cast<unsigned>(std::countr_zero(outside | 0x10000U));
}
#endif

// Returns the end of the ASCII characters from `at` on that have the flag: kLetter, or kLower.
template <uint8_t kFlag>
inline const char* ascii_end(const char* at, const char* end) {
  static_assert(kFlag == Flags::kLetter || kFlag == Flags::kLower);
#if defined(__SSE2__)
  while (end - at >= kVector) {
    const unsigned count = count_between(at, kFlag == Flags::kLetter ? 0x20 : 0, 'a', 'z');
    at += count;
    if (count < kVector) return at;
  }
#endif
  while (at < end && is_ascii(at) && (kAscii[byte_at(at)] & kFlag) != 0) ++at;
  return at;
}

// Returns the end of the characters from `at` on, ASCII or not, of which each has one of `set`.
// `set` contains kFlag, and no other flag of an ASCII character.
template <uint8_t kFlag>
inline const char* run_end(const char* at, const char* end, uint8_t set, const Flags& characters) {
  for (;;) {
    while (at < end && !is_ascii(at)) {
      const Character c = wide_character(at, characters);
      if ((c.flags & set) == 0) return at;
      at += c.size;
    }
    const char* const ascii = ascii_end<kFlag>(at, end);
    if (ascii == at || ascii == end || is_ascii(ascii)) return ascii;
    at = ascii;
  }
}

inline const char* blanks_end(const char* at, const char* end) {
#if defined(__SSE2__)
  while (end - at >= kVector) {
    const unsigned count = count_between(at, 0, ' ', ' ');
    at += count;
    if (count < kVector) return at;
  }
#endif
  while (at < end && *at == ' ') ++at;
  return at;
}

#if defined(__SSE2__)
// The 64 bytes from a place on as sets: bit i stands for byte i.
constexpr std::ptrdiff_t kWindow = 64;
struct AsciiSets {
  uint64_t letters = 0;
  uint64_t upper = 0;  // letters in upper case
  uint64_t numbers = 0;
  uint64_t spaces = 0;  // white space
  uint64_t blanks = 0;  // ' '
  uint64_t newlines = 0;
  uint64_t quotes = 0;  // '\''
  uint64_t slashes = 0;
  uint64_t wide = 0;  // bytes of characters that are not ASCII
};

// One signed comparison does it, once the range is moved to the smallest values.
inline __m128i are_between(__m128i bytes, char first, char last) {
  const __m128i moved = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(-128 - first)));
  return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(-128 + last - first + 1)));
}

inline AsciiSets sets_at(const char* at) {
  AsciiSets sets;
  for (int part = 0; part < kWindow / kVector; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + part * kVector));
    const auto add = [&](uint64_t& set, __m128i found) {
      set |= uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(found))} << (part * kVector);
    };
    const auto are = [&](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
    const __m128i blanks = are(' ');
    add(sets.letters, are_between(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z'));
    add(sets.numbers, are_between(bytes, '0', '9'));
    add(sets.spaces, _mm_or_si128(blanks, are_between(bytes, '\t', '\r')));
    add(sets.blanks, blanks);
    add(sets.newlines, _mm_or_si128(are('\n'), are('\r')));
    add(sets.quotes, are('\''));
    add(sets.wide, bytes);
    add(sets.upper, are_between(bytes, 'A', 'Z'));
    add(sets.slashes, are('/'));
  }
  return sets;
}

inline bool begins_with_ascii(const char* at) {
  return _mm_movemask_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))) == 0;
}

// The bits below the lowest one of a set; all of an empty set.
constexpr uint64_t below_lowest(uint64_t set) { return (set & -set) - 1; }
constexpr uint64_t bit(int i) { return uint64_t{1} << i; }

// `gaps` are white space without newlines. Returns where a run of gaps begins behind a newline,
// unless it ends before another newline, which then takes the run.
uint64_t indents(uint64_t gaps, uint64_t newlines) {
  uint64_t begins = gaps & (newlines << 1);
  uint64_t before_newline = (gaps + begins) & ~gaps & newlines;
  for (; before_newline != 0; before_newline &= before_newline - 1) {
    const uint64_t before = ~gaps & below_lowest(before_newline);
    begins &= ~(bit(0) << 1 << (63 - std::countl_zero(before)));
  }
  return begins;
}
#endif

// Removes from `pattern` the spelling that it begins with, and returns its number; -1: none.
int take_spelling(std::string_view& pattern, std::initializer_list<std::string_view> spellings) {
  int number = 0;
  for (const std::string_view spelling : spellings) {
    if (pattern.starts_with(spelling)) {
      pattern.remove_prefix(spelling.size());
      return number;
    }
    ++number;
  }
  return -1;
}

constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

}  // namespace

struct SplitScanner::Text {
  const char* end;
};

// The alternatives of the expressions stand in one order: contractions, words, numbers,
// punctuation, newlines, spaces. Some spell one alternative otherwise, or lack it.
std::optional<SplitScanner> SplitScanner::of(std::string_view pattern) {
  SplitScanner scanner;
  if (pattern == R"(\p{N})" || pattern == R"(\p{N}+)" || pattern == R"(\p{N}{1,3})") {
    scanner.most_numbers_ = pattern.ends_with('+') ? kAnyNumber : pattern.ends_with("3}") ? 3 : 1;
    scanner.characters_ = &CharacterFlags::get();
    return scanner;
  }
  switch (
      take_spelling(pattern, {R"('s|'t|'re|'ve|'m|'ll|'d|)", R"('(?:[sdmt]|ll|ve|re)|)",
                              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|)", R"('(?i:[sdmt]|ll|ve|re)|)"})) {
    case -1:
      break;
    case 0:
    case 1:
      scanner.contractions_ = Contractions::kLowerCase;
      break;
    default:
      scanner.contractions_ = Contractions::kAnyCase;
  }
  bool takes_marks = false;
  switch (take_spelling(
      pattern, {R"( ?\p{L}+|)", R"([^\r\n\p{L}\p{N}]?\p{L}+|)", R"([^\r\n\p{L}\p{N}]?+\p{L}+|)",
                R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|)", kO200kWords, kTekkenWords})) {
    case 0:
      scanner.words_ = Words::kSpacePrefix;
      break;
    case 1:
    case 2:
      scanner.words_ = Words::kAnyPrefix;
      break;
    case 3:
      scanner.words_ = Words::kAnyPrefix;
      takes_marks = true;
      scanner.letters_ = Flags::kLetter | Flags::kMark;
      break;
    case 4:
      if (scanner.contractions_ != Contractions::kNone) return std::nullopt;
      scanner.words_ = Words::kCased;
      scanner.contractions_ = Contractions::kAnyCase;
      scanner.contractions_end_words_ = true;
      break;
    case 5:
      scanner.words_ = Words::kCased;
      break;
    default:
      return std::nullopt;
  }
  switch (take_spelling(pattern, {R"( ?\p{N}+|)", R"(\p{N}+|)", R"(\p{N}|)", R"(\p{N}{1,3}|)"})) {
    case 0:
      scanner.numbers_take_space_ = true;
      [[fallthrough]];
    case 1:
      scanner.most_numbers_ = kAnyNumber;
      break;
    case 2:
      scanner.most_numbers_ = 1;
      break;
    case 3:
      scanner.most_numbers_ = 3;
      break;
    default:
      return std::nullopt;
  }
  if (take_spelling(pattern,
                    {takes_marks ? R"( ?[^\s\p{L}\p{M}\p{N}]+)" : R"( ?[^\s\p{L}\p{N}]+)"}) < 0)
    return std::nullopt;
  take_spelling(pattern, {"+"});  // a possessive run gives nothing back, and need not
  switch (take_spelling(pattern, {"|", R"([\r\n]*|)", R"([\r\n/]*|)"})) {
    case 0:
      break;
    case 2:
      scanner.punctuation_takes_slashes_ = true;
      [[fallthrough]];
    case 1:
      scanner.punctuation_takes_newlines_ = true;
      break;
    default:
      return std::nullopt;
  }
  scanner.newlines_end_spaces_ = take_spelling(pattern, {R"(\s*[\r\n]+|)", R"(\s*[\r\n]|)"}) >= 0;
  if (pattern != R"(\s+(?!\S)|\s+)") return std::nullopt;
  scanner.characters_ = &CharacterFlags::get();
  return scanner;
}

size_t SplitScanner::scan(std::string_view text, size_t& from,
                          std::span<std::string_view> splits) const {
  switch (words_) {
    case Words::kNone:
      return scan_numbers(text, from, splits);
    case Words::kSpacePrefix:
      return scan_words<Words::kSpacePrefix>(text, from, splits);
    case Words::kAnyPrefix:
      return scan_words<Words::kAnyPrefix>(text, from, splits);
    case Words::kCased:
      return scan_words<Words::kCased>(text, from, splits);
  }
  return 0;
}

size_t SplitScanner::scan_numbers(std::string_view text, size_t& from,
                                  std::span<std::string_view> splits) const {
  const char* at = text.data() + from;
  const Text bounds{text.data() + text.size()};
  size_t count = 0;
  while (at < bounds.end && count < splits.size()) {
    const char* end = numbers_end(bounds, at, most_numbers_);
    if (end == at) {
      Character c{};
      while (end < bounds.end &&
             ((c = character_at(end, *characters_)).flags & Flags::kNumber) == 0)
        end += c.size;
    }
    splits[count++] = {at, static_cast<size_t>(end - at)};
    at = end;
  }
  from = static_cast<size_t>(at - text.data());
  return count;
}

template <SplitScanner::Words kWords>
size_t SplitScanner::scan_words(std::string_view text, size_t& from,
                                std::span<std::string_view> splits) const {
  const char* at = text.data() + from;
  const Text bounds{text.data() + text.size()};
  size_t count = 0;
  while (at < bounds.end && count < splits.size()) {
#if defined(__SSE2__)
    if (bounds.end - at >= kWindow && begins_with_ascii(at)) {
      const char* const window = at;
      for (uint64_t ends = ends_in_window<kWords>(bounds, at); ends != 0; ends &= ends - 1) {
        if (count == splits.size()) break;
        const char* const end = window + std::countr_zero(ends);
        splits[count++] = {at, static_cast<size_t>(end - at)};
        at = end;
      }
      if (at != window) continue;
    }
#endif
    const char* const end = split_end<kWords>(bounds, at);
    splits[count++] = {at, static_cast<size_t>(end - at)};
    at = end;
  }
  from = static_cast<size_t>(at - text.data());
  return count;
}

// The end of the split that begins at `at`.
template <SplitScanner::Words kWords>
inline const char* SplitScanner::split_end(Text text, const char* at) const {
  const Flags& characters = *characters_;
  const auto [flags, size] = character_at(at, characters);
  const char* const next = at + size;
  if (*at == '\'' && contractions_ != Contractions::kNone && !contractions_end_words_) {
    const char* const end = contraction_end(text, at);
    if (end != at) return end;
  }
  if constexpr (kWords == Words::kCased) {
    const char* const end = cased_end(text, at, next, flags);
    if (end != at) return end;
  } else {
    const bool is_letter = (flags & letters_) != 0;
    const bool may_be_prefix = kWords == Words::kSpacePrefix
                                   ? *at == ' '
                                   : (flags & (Flags::kNumber | Flags::kNewline)) == 0;
    if (is_letter || may_be_prefix) {
      const char* const end = run_end<Flags::kLetter>(next, text.end, letters_, characters);
      if (is_letter || end != next) return end;
    }
  }
  if ((flags & Flags::kNumber) != 0) return numbers_end(text, at, most_numbers_);
  if (numbers_take_space_ && *at == ' ') {
    const char* const end = numbers_end(text, next, most_numbers_);
    if (end != next) return end;
  }
  const auto none = static_cast<uint8_t>(Flags::kSpace | Flags::kNumber | letters_);
  const bool is_punctuation = (flags & none) == 0;
  if (is_punctuation || *at == ' ') {
    const char* end = next;
    Character c{};
    while (end < text.end && ((c = character_at(end, characters)).flags & none) == 0) end += c.size;
    if (is_punctuation || end != next) {
      if (punctuation_takes_newlines_) {
        while (end < text.end &&
               (*end == '\n' || *end == '\r' || (*end == '/' && punctuation_takes_slashes_)))
          ++end;
      }
      return end;
    }
  }
  return spaces_end(text, at);
}

#if defined(__SSE2__)
// Finds the ends of splits in the 64 bytes from `at` on, where a split begins, as far as these
// bytes decide them. If they decide none, split_end() finds it.
//
// A split ends where the next one begins, so the sets are of places where splits begin. Whether one
// begins at a character depends on the characters before it, and on the next one; behind white
// space also on what follows the run.
template <SplitScanner::Words kWords>
uint64_t SplitScanner::ends_in_window(Text text, const char* at) const {
  const AsciiSets sets = sets_at(at);
  const uint64_t ascii = below_lowest(sets.wide);
  const uint64_t letters = sets.letters & ascii;
  const uint64_t spaces = sets.spaces & ascii;
  const uint64_t solid = ascii & ~spaces;
  const uint64_t punctuation = solid & ~letters & ~sets.numbers;
  const uint64_t behind_blank = sets.blanks << 1;
  uint64_t undecided = 0;

  // Newlines behind punctuation are of its split: the sum carries each run of them to its end.
  uint64_t white = spaces;
  if (punctuation_takes_newlines_) {
    const uint64_t newlines = sets.newlines & ascii;
    const uint64_t carried = newlines + (newlines & (punctuation << 1));
    white &= ~newlines | carried;
    if (punctuation_takes_slashes_) undecided |= carried & ~newlines & sets.slashes;
  }

  // A run of white space, and its last character, which the next split may begin with.
  const uint64_t gaps = newlines_end_spaces_ ? white & ~sets.newlines : white;
  const uint64_t last_gaps = gaps & (solid >> 1);
  uint64_t starts = (white & ~(white << 1)) | last_gaps;
  if (newlines_end_spaces_) starts |= indents(gaps, white & sets.newlines);

  starts |= number_starts(sets.numbers & ascii, behind_blank);
  const uint64_t marks = punctuation & ~(punctuation << 1) & ~behind_blank;
  starts |= marks;
  const uint64_t words = letters & ~(letters << 1);
  if constexpr (kWords == Words::kSpacePrefix) {
    starts |= words & ~behind_blank;
  } else {
    const uint64_t prefixes = (spaces & ~sets.newlines) | (marks & (letters >> 1));
    starts |= words & ~(prefixes << 1);
  }
  if constexpr (kWords == Words::kCased)
    starts |= letters & sets.upper & ((letters & ~sets.upper) << 1);

  uint64_t quotes = marks & sets.quotes & (letters >> 1);
  if (contractions_end_words_) {
    undecided |= sets.quotes & ascii & ~(ascii >> 1);
    quotes &= letters << 1;
  }
  if (contractions_ != Contractions::kNone && quotes != 0)
    cut_contractions(text, at, quotes, letters, starts);

  const uint64_t decided = starts & (solid | last_gaps) & below_lowest(undecided) & ~bit(0);
  if (decided == 0) return 0;
  return starts & (~uint64_t{0} >> std::countl_zero(decided)) & ~bit(0);
}

uint64_t SplitScanner::number_starts(uint64_t numbers, uint64_t behind_blank) const {
  if (most_numbers_ == 1) return numbers;
  uint64_t starts = numbers & ~(numbers << 1);
  if (numbers_take_space_) starts &= ~behind_blank;
  if (most_numbers_ == kAnyNumber) return starts;
  // Starts of number splits of up to three: the first number of each run, then every third.
  uint64_t fourth = numbers & (numbers << 1) & (numbers << 2) & (numbers << 3);
  while (fourth != 0) {
    const int next = std::countr_zero(fourth);
    starts |= bit(next);
    fourth &= ~(uint64_t{7} << next);
  }
  return starts;
}

// Changes the starts of splits where a contraction begins at one of `quotes`, which stand before
// letters: nothing begins in it, and a letter behind it begins a split.
void SplitScanner::cut_contractions(Text text, const char* at, uint64_t quotes, uint64_t letters,
                                    uint64_t& starts) const {
  const char* done = nullptr;  // the end of the last contraction; a word has one
  for (; quotes != 0; quotes &= quotes - 1) {
    const int index = std::countr_zero(quotes);
    const char* const quote = at + index;
    const char* const end = contraction_end(text, quote);
    if (end == quote || (contractions_end_words_ && quote == done)) continue;
    const auto size = end - quote;
    const uint64_t inner = (bit(0) << size) - (contractions_end_words_ ? 1 : 2);
    starts &= ~(inner << index);
    starts |= letters & (bit(index) << size);
    done = end;
  }
}
#endif

// Upper case, then lower case, of which one may be missing; letters without case and marks are
// both. The first alternative wants lower case at the end: where none follows the run of upper
// case, the run gives back all behind its last character that is both. The second one wants upper
// case alone. Returns `at` where neither matches.
const char* SplitScanner::cased_end(Text text, const char* at, const char* next,
                                    uint8_t flags) const {
  const Flags& characters = *characters_;
  const bool is_mark = (flags & Flags::kMark) != 0;
  const bool is_letter = (flags & Flags::kLetter) != 0;
  if ((flags & (Flags::kNumber | Flags::kNewline)) != 0) return at;
  const char* const begin = is_letter ? at : next;
  const char* end = begin;
  const char* behind_both = begin;
  Character c{};
  while (end < text.end && ((c = character_at(end, characters)).flags & Flags::kUpper) != 0) {
    end += c.size;
    if ((c.flags & Flags::kLower) != 0) behind_both = end;
  }
  if (end < text.end && (c.flags & Flags::kLower) != 0) {
    end = run_end<Flags::kLower>(end, text.end, Flags::kLower, characters);
  } else if (behind_both != begin) {
    end = behind_both;
  } else if (is_mark) {
    end = next;  // the mark itself is both
  } else if (end == begin) {
    return at;
  }
  return contractions_end_words_ ? contraction_end(text, end) : end;
}

// Returns the end of the contraction at `quote`, or `quote` where there is none.
const char* SplitScanner::contraction_end(Text text, const char* quote) const {
  if (text.end - quote < 2 || *quote != '\'') return quote;
  const bool is_any_case = contractions_ == Contractions::kAnyCase;
  const auto letter = [&](std::ptrdiff_t i) {
    const unsigned c = i < text.end - quote ? byte_at(quote + i) : 0;
    return static_cast<char>(is_any_case && c >= 'A' && c <= 'Z' ? c | 0x20U : c);
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return quote + 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? quote + 3 : quote;
    case 'l':
      return letter(2) == 'l' ? quote + 3 : quote;
    case '\xC5':  // U+017F, which is an s in any case
      return is_any_case && letter(2) == '\xBF' ? quote + 3 : quote;
    default:
      return quote;
  }
}

const char* SplitScanner::numbers_end(Text text, const char* at, size_t most) const {
  for (; most > 0 && at < text.end; --most) {
    const Character c = character_at(at, *characters_);
    if ((c.flags & Flags::kNumber) == 0) break;
    at += c.size;
  }
  return at;
}

// A run of spaces ends behind its last newline, at the end of the text, or before its last
// character, which belongs to what follows unless it stands alone.
const char* SplitScanner::spaces_end(Text text, const char* at) const {
  const char* end = at;
  const char* last = at;
  const char* behind_newline = at;
  while (end < text.end) {
    if (*end == ' ') {
      end = blanks_end(end, text.end);
      last = end - 1;
      continue;
    }
    const Character c = character_at(end, *characters_);
    if ((c.flags & Flags::kSpace) == 0) break;
    last = end;
    end += c.size;
    if ((c.flags & Flags::kNewline) != 0) behind_newline = end;
  }
  if (newlines_end_spaces_ && behind_newline != at) return behind_newline;
  return end == text.end || last == at ? end : last;
}

}  // namespace lmtrain
