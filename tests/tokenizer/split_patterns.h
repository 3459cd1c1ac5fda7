// The patterns that a SplitScanner knows, and the splits that SplitRegex cuts by them.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/split_regex.h"
#include "tokenizer/split_scanner.h"

namespace lmtrain {

inline constexpr std::array<std::string_view, 11> kKnownPatterns = {
    // GPT-2
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    // cl100k, Llama 3
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)",
    // Qwen 2 and 3, Qwen 3.5
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // o200k
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Tekken
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Digits
    R"(\p{N})", R"(\p{N}+)", R"(\p{N}{1,3})"};

// The matches, and what lies between them.
inline std::vector<std::string_view> splits_by_regex(const SplitRegex& regex,
                                                     SplitRegex::Matcher& matcher,
                                                     std::string_view text) {
  std::vector<std::string_view> splits;
  size_t done = 0;
  const auto add = [&](size_t end) {
    if (end > done) splits.push_back(text.substr(done, end - done));
    done = end;
  };
  SplitRegex::Match match{};
  while (done < text.size() && regex.find(text, done, matcher, match)) {
    add(match.begin);
    add(match.end);
  }
  add(text.size());
  return splits;
}

// `room` splits at a time.
inline std::vector<std::string_view> splits_by_scanner(const SplitScanner& scanner,
                                                       std::string_view text, size_t room = 64) {
  std::vector<std::string_view> splits;
  std::vector<std::string_view> some(room);
  size_t from = 0;
  while (const size_t count = scanner.scan(text, from, some))
    splits.insert(splits.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  return splits;
}

}  // namespace lmtrain
