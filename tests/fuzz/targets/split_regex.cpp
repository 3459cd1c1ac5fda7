// The regular expression of a pre-tokenizer, and a text that it cuts; parted by a line "%%".
#include "tokenizer/split_regex.h"

#include "base/utf8.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(split_regex) {
  const std::vector<std::string> parts = parts_of(input, 2);
  const std::string_view text = std::string_view(parts[1]).substr(0, valid_utf8_prefix(parts[1]));
  accepts([&] {
    const SplitRegex regex(parts[0], "pattern");
    SplitRegex::Matcher matcher;
    SplitRegex::Match match{};
    for (size_t from = 0; from <= text.size(); from = match.end) {
      if (!regex.find(text, from, matcher, match)) break;
      require(from <= match.begin && match.begin < match.end && match.end <= text.size(),
              "a match outside the text");
    }
  });
}

}  // namespace lmtrain::fuzzing
