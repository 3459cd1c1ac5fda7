// Finds the text in one line of JSON lines: a string field of an object. The whole line is checked
// to be JSON (RFC 8259, without halves of surrogate pairs, with Python's NaN and Infinity) and
// UTF-8. Its length, its depth and the size of its numbers have no limit. Memory: a byte for each
// open container, and the text where it has escapes. A parser is for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// JsonScanner throws it where a text stops being JSON: at which byte, and why.
struct JsonSyntaxError {
  size_t offset = 0;
  const char* what = "";
};

// A JsonScanner finds the value at a path in one pass over a JSON text (RFC 8259), and checks the
// syntax of the rest. NaN, Infinity and -Infinity of Python's json count as numbers. An escape of
// half a surrogate pair is an error, since it is no character. It does not check that the text is
// UTF-8.
class JsonScanner {
 public:
  enum class Type : uint8_t { kNone, kNull, kBoolean, kNumber, kString, kArray, kObject };
  // The values at a path: how many there are, and the last one.
  struct Found {
    int count = 0;
    Type type = Type::kNone;
    std::string_view raw{};  // bytes of a string between its quotes, escapes included
    bool has_escapes = false;
  };

  // `path` holds the keys of nested objects, one or more. `field` is a key of the outermost object
  // that may have dots. A caller who looks for "a.b" passes it as field, and {"a", "b"} as path.
  // Text, field and path must outlive the scanner.
  JsonScanner(std::string_view text, const std::string& field, const std::vector<std::string>& path)
      : text_(text), field_(field), path_(path), keys_(path.size(), Key{}) {}

  // Reads the text; call it once. Throws JsonSyntaxError; what it found before that stays.
  void scan();

  const Found& field() const { return at_field_; }  // at the key `field` of the outermost object
  // Returns what is at `path`, through objects and never through arrays. If an outer key of the
  // path is there twice, the count is 2. If the value of an outer key is null, it finds null.
  const Found& path() const { return at_path_; }
  Type type() const { return type_; }  // type of the whole text
  // Returns the first fifty keys of the outermost object, escapes resolved.
  std::vector<std::string> keys() const;

 private:
  struct Key {
    std::string_view raw{};
    bool has_escapes = false;
    bool operator==(const std::string& name) const;
  };
  struct String {
    std::string_view raw;
    bool has_escapes;
  };
  enum class Next : uint8_t { kValue, kKey, kAfterValue };

  [[noreturn]] void fail(const char* what) const { throw JsonSyntaxError{position_, what}; }
  // Returns the next byte, or 0 at the end, since a NUL in the text is never right either.
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void skip_blanks();
  Next scan_value();
  Next scan_key();
  Next open(Type type);
  Next after_value();
  String scan_string();
  void scan_escape();
  unsigned scan_hex4();
  void scan_number();
  void scan_digits();
  void scan_word(std::string_view word);
  void note(Type type, const String& string = {});

  std::string_view text_;
  const std::string& field_;
  const std::vector<std::string>& path_;
  size_t position_ = 0;
  std::string open_;       // '{' or '[' for each container, outermost first
  std::vector<Key> keys_;  // last key in each of the outermost containers
  std::vector<Key> outermost_keys_;
  Type type_ = Type::kNone;
  Found at_field_;
  Found at_path_;
  size_t num_outer_ = 0;        // values at the beginnings of the path
  bool outer_is_null_ = false;  // one of these is null
};

// Appends the string whose bytes between its quotes are `raw`, escapes resolved. Requires that
// scan() has accepted it.
void append_unescaped(std::string_view raw, std::string& out);

struct JsonText {
  enum class Kind { kText, kNull, kProblem };
  Kind kind = Kind::kProblem;
  std::string_view text{};  // points into the line or the parser; valid until the next call
  std::string problem{};    // for kProblem: says what is wrong, and where
  std::string advice{};     // for kProblem: says what to do; may be empty

  // Returns the problem, and the advice after a semicolon.
  std::string message() const { return advice.empty() ? problem : problem + "; " + advice; }
};

class JsonLineParser {
 public:
  // `field` is a key of the object. Without such a key a.b is key b of the object in key a. A field
  // given twice is a problem, as it may mean either.
  explicit JsonLineParser(std::string field);

  // Returns the text of `line`, which has no newline. kNull: the field is null. kProblem: no JSON
  // object, a blank line, a missing field, a field twice, another type than string. Throws nothing.
  JsonText parse(std::string_view line);

 private:
  std::string field_;
  std::vector<std::string> path_;  // field_ cut at its dots
  std::string text_;
};

}  // namespace lmtrain
