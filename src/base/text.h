// Small text helpers for messages: joining values, the nearest known word, counts and durations for
// people.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// The values streamed one after another: str("step ", 3, " of ", 10).
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// The parts with `separator` between each two.
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// "1 document", "2 documents": the plural of `noun` ends in "s".
std::string counted(int64_t count, std::string_view noun);

// A to Z in lower case; all else stays.
std::string lower_case(std::string_view text);

// The text as one word of a shell, quoted where it has to be.
std::string shell_quoted(const std::string& text);

// The candidate with the smallest edit distance to `word` (insertions, deletions, substitutions and
// swaps of neighbours); the first of several. Empty when none is near enough to be a likely typo:
// the distance may be a third of the longer word, but 1 in any case.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

// One number by a printf format. Requires a result of at most 63 characters.
std::string printed(const char* format, double value);
// 1234567 -> "1.23M"; 999 -> "999".
std::string format_count(double count);
// Bytes in binary units: 1536 -> "1.5 KiB".
std::string format_bytes(uint64_t bytes);
// Seconds as "45s", "3m05s", "2h07m", "1d03h".
std::string format_duration(double seconds);
// Now, in UTC: "2026-11-21T09:43:00.123Z".
std::string utc_timestamp();

}  // namespace lmtrain
