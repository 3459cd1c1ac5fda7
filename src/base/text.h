// These functions make the texts of messages and records: they join values, find the nearest known
// word, print counts and durations for people, and say when and on which machine.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// Returns the values printed one after another, by operator<<: str("step ", 3, " of ", 10).
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// Returns the parts with `separator` between each two.
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Returns "1 document" or "2 documents" for the noun "document": the plural adds an "s".
std::string counted(int64_t count, std::string_view noun);

// Turns A to Z into lower case; all else stays.
std::string lower_case(std::string_view text);

// Returns the text before its first newline, or the whole text where it has no newline.
std::string first_line(std::string_view text);

// Returns the text as one word of a shell, quoted where it has to be.
std::string shell_quoted(const std::string& text);

// Returns the text as `ls` shows a name: with a backslash (\033, \n, \377, \u202e) for characters
// that could move the cursor, change colours or hide text, and for bytes that are not UTF-8. With
// `keeps_lines` tabs and newlines stay as they are.
std::string shown(std::string_view text, bool keeps_lines = false);
template <std::same_as<std::filesystem::path> Path>  // no string that might be a path too
std::string shown(const Path& path) {
  return shown(path.native());
}

// Returns the candidate with the smallest edit distance to `word` (insertions, deletions,
// substitutions and swaps of neighbouring bytes); the first of several. Returns "" when no
// candidate is near. A distance of 1 is near; a larger one is near if it is at most a third of the
// length of the longer word.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

// Returns the `count` candidates that are the most like `word`, the nearest first, however far.
// Candidates that hold a part of `word`, three bytes or more between "_", come first; the others
// follow by edit distance.
std::vector<std::string> most_similar_words(std::string_view word,
                                            const std::vector<std::string>& candidates,
                                            size_t count);

// Prints one number by a printf format for a double: printed("%.1f", 0.25) -> "0.2". NaN is "nan",
// whatever its sign.
std::string printed(const char* format, double value);
// Returns a count with three digits and K, M, B or T: 1234567 -> "1.23M"; 999 -> "999".
std::string format_count(double count);
// Returns bytes in binary units: 1536 -> "1.5 KiB".
std::string format_bytes(uint64_t bytes);
// Rounds to whole seconds, and returns "45s", "3m05s", "2h07m" or "1d03h"; smaller units are cut
// off. A negative time is "0s". Requires a finite number.
std::string format_duration(double seconds);
// Returns a time, by default the present one, in UTC: "2026-11-21T09:43:00.123Z".
std::string utc_timestamp(
    std::chrono::system_clock::time_point time = std::chrono::system_clock::now());
// Returns two hexadecimal digits a byte, in lower case.
std::string to_hex(std::string_view bytes);
// Returns the host name of this machine; empty where the system does not say it.
std::string host_name();

// Returns a name from an untrusted file for a message: in quotes, spelled by shown(), and cut after
// 120 bytes (a safetensors header may hold names of megabytes). It is not called `quoted`: overload
// resolution would silently prefer std::quoted.
std::string quote(std::string_view name);

// Returns the first `most` names, each by quote(), with ", " between them; ", ..." follows where
// there are more.
std::string quoted_list(const std::vector<std::string>& names, size_t most);

// Returns the parts of the key of a value inside nested objects: {"a", "b", "c"} for "a.b.c". A
// part may be empty: "a..b" gives {"a", "", "b"}, and "" gives {""}.
std::vector<std::string> key_parts(std::string_view key);

}  // namespace lmtrain
