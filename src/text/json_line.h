// Finds the text in one line of JSON lines: a string field of an object. The whole line is checked
// to be JSON (RFC 8259, without halves of surrogate pairs, with Python's NaN and Infinity) and
// UTF-8. Its length, its depth and the size of its numbers have no limit. Memory: a byte for each
// open container, and the text where it has escapes. A parser belongs to one thread.
//
// The parser is our own, because libparquet.so brings simdjson in with it and exports it: another
// version of simdjson in the process calls its functions and crashes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

struct JsonText {
  enum class Kind { kText, kNull, kProblem };
  Kind kind = Kind::kProblem;
  std::string_view text{};  // points into the line or the parser; valid until the next call
  std::string problem{};    // says, for kProblem, what is wrong, where, and what to do
};

class JsonLineParser {
 public:
  // `field` is a key of the object, or a.b for key b of the object in key a (if there is no key
  // that has this name as a whole). A field given twice is a problem, as it may mean either.
  explicit JsonLineParser(std::string field);

  // Returns the text of `line`, which has no newline. The kind is kNull where the field is null; a
  // blank line, a missing field or another type than string is a kProblem. Throws nothing.
  JsonText parse(std::string_view line);

 private:
  std::string field_;
  std::vector<std::string> path_;  // field_ cut at its dots
  std::string text_;
};

}  // namespace lmtrain
