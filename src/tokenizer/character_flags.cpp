#include "tokenizer/character_flags.h"

#include <map>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/split_regex.h"

namespace lmtrain {
namespace {

constexpr char32_t kCodePoints = 0x110000;

// Planes without characters of these classes are left out: they are not assigned, or private.
bool is_plane_used(char32_t plane) { return plane < 4 || plane == 14; }

std::string all_characters() {
  std::string text;
  text.reserve(size_t{5} << 18);
  for (char32_t c = 0; c < kCodePoints; ++c) {
    const bool is_surrogate = c >= 0xD800 && c < 0xE000;
    if (!is_surrogate && is_plane_used(c >> 16)) append_utf8(text, c);
  }
  return text;
}

template <class Visit>
void for_each_match(std::string_view pattern, std::string_view text, const Visit& visit) {
  const SplitRegex regex(pattern, "a class of characters");
  SplitRegex::Matcher matcher;
  SplitRegex::Match match{};
  for (size_t from = 0; from < text.size() && regex.find(text, from, matcher, match);
       from = match.end)
    visit(match.begin, match.end);
}

}  // namespace

const CharacterFlags& CharacterFlags::get() {
  static const CharacterFlags table;
  return table;
}

CharacterFlags::CharacterFlags() {
  struct Class {
    std::string_view pattern;
    uint8_t flags;
  };
  const std::array<Class, 7> classes = {{{"[\\p{Lu}\\p{Lt}]+", kLetter | kUpper},
                                         {"\\p{Ll}+", kLetter | kLower},
                                         {"[\\p{Lm}\\p{Lo}]+", kLetter | kUpper | kLower},
                                         {"\\p{M}+", kMark | kUpper | kLower},
                                         {"\\p{N}+", kNumber},
                                         {"\\s+", kSpace},
                                         {"[\\r\\n]+", kNewline}}};
  // Neighbours that are alike in all classes form a run, and the first character of each stands for
  // it: so one pass over all characters is enough.
  constexpr std::string_view kRuns =
      "[\\p{Lu}\\p{Lt}]+|\\p{Ll}+|[\\p{Lm}\\p{Lo}]+|\\p{M}+|\\p{N}+|[\\r\\n]+|\\s";
  struct Run {
    std::string_view text;
    size_t first;  // where its first character is in `firsts`
  };
  const std::string text = all_characters();
  std::vector<Run> runs;
  std::string firsts;
  for_each_match(kRuns, text, [&](size_t begin, size_t end) {
    char32_t c = 0;
    runs.push_back({std::string_view(text).substr(begin, end - begin), firsts.size()});
    firsts += runs.back().text.substr(0, decode_utf8(runs.back().text, c));
  });
  std::vector<uint8_t> flags(firsts.size());
  for (const Class& one : classes) {
    for_each_match(one.pattern, firsts, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) flags[i] = static_cast<uint8_t>(flags[i] | one.flags);
    });
  }
  std::vector<uint8_t> all(kCodePoints);
  for (const Run& run : runs) {
    for (std::string_view rest = run.text; !rest.empty();) {
      char32_t c = 0;
      rest.remove_prefix(decode_utf8(rest, c));
      all[c] = flags[run.first];
    }
  }
  std::map<std::string_view, uint16_t> known;
  for (char32_t block = 0; block < kCodePoints / kBlock; ++block) {
    const uint8_t* begin = all.data() + block * kBlock;
    const std::string_view content(reinterpret_cast<const char*>(begin), kBlock);
    const auto [found, is_new] = known.emplace(content, static_cast<uint16_t>(known.size()));
    if (is_new) flags_.insert(flags_.end(), begin, begin + kBlock);
    blocks_[block] = found->second;
  }
}

}  // namespace lmtrain
