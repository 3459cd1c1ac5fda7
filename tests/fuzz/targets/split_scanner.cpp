// A text that a scanner and an expression of the same pattern cut alike, alone and before others
// that fill the 64 bytes that the scanner looks at together. The first byte chooses the pattern.
#include "tokenizer/split_scanner.h"

#include "base/utf8.h"
#include "fuzz/target.h"
#include "tokenizer/split_patterns.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(split_scanner) {
  if (input.empty()) return;
  const size_t index = static_cast<unsigned char>(input.front()) % kKnownPatterns.size();
  input.remove_prefix(1);
  const std::string_view text = input.substr(0, valid_utf8_prefix(input));
  static std::array<std::optional<SplitRegex>, kKnownPatterns.size()> regexes;
  std::optional<SplitRegex>& regex = regexes[index];
  if (!regex) regex.emplace(kKnownPatterns[index], "pattern");
  SplitRegex::Matcher matcher;
  const SplitScanner scanner = SplitScanner::of(kKnownPatterns[index]).value();
  for (const std::string_view behind :
       {"", "s are 12345 words,\n\tand\n\n  more; it's as LONG as one window...\n  and Longer"}) {
    const std::string whole = std::string(text).append(behind);
    require(splits_by_scanner(scanner, whole) == splits_by_regex(*regex, matcher, whole),
            "the scanner cuts otherwise than the expression");
  }
}

}  // namespace lmtrain::fuzzing
