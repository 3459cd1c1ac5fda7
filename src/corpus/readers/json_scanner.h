// One pass over a JSON text (RFC 8259) that finds the value at a path and checks everything else.
// json_line.h says what for; the text is valid UTF-8 already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// The byte at which a text stops being JSON, and why.
struct JsonSyntaxError {
  size_t offset = 0;
  const char* what = "";
};

class JsonScanner {
 public:
  enum class Type : uint8_t { kNone, kNull, kBoolean, kNumber, kString, kArray, kObject };
  struct Found {
    int count = 0;
    Type type = Type::kNone;
    std::string_view raw{};  // of a string: between its quotes, escapes and all
    bool has_escapes = false;
  };

  // `path`: keys of objects inside each other. `field`: a key of the outermost object, the same as
  // path[0] or the whole of a path with dots in it.
  JsonScanner(std::string_view text, const std::string& field, const std::vector<std::string>& path)
      : text_(text), field_(field), path_(path), keys_(path.size(), Key{}) {}

  // Throws JsonSyntaxError.
  void scan();

  const Found& field() const { return at_field_; }
  const Found& path() const { return at_path_; }
  Type type() const { return type_; }  // of the whole
  // The keys of the outermost object, the first fifty.
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
  // The byte at hand; 0 at the end, where a NUL in the text is never right either.
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
  std::vector<Key> keys_;  // of the outermost of them
  std::vector<Key> outermost_keys_;
  Type type_ = Type::kNone;
  Found at_field_;
  Found at_path_;
};

// Appends a string as it is between its quotes, escapes resolved; it has passed scan().
void append_unescaped(std::string_view raw, std::string& out);

}  // namespace lmtrain
