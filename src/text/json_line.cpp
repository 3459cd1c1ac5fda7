// lmtrain has its own parser, because libparquet.so contains simdjson and exports it: another
// version of simdjson in the process would call its functions and crash.
#include "text/json_line.h"

#include <algorithm>
#include <bit>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

unsigned hex_value(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? static_cast<unsigned>(lower - 'a' + 10) : 16;
}

bool is_plain(char c) { return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20; }

// How many bytes from the front neither end a string nor escape nor are control characters: almost
// all of a corpus passes here, so sixteen at a time.
size_t plain_bytes(std::string_view text) {
  size_t i = 0;
#if defined(__SSE2__)
  for (; i + sizeof(__m128i) <= text.size(); i += sizeof(__m128i)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + i));
    const __m128i is_control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
    const __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                      _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(is_control, ends)));
    if (mask != 0) return i + static_cast<size_t>(std::countr_zero(mask));
  }
#endif
  while (i < text.size() && is_plain(text[i])) ++i;
  return i;
}

// Copies what lies before the first backslash from `from` to `to`, and returns its size. It may
// write up to from.size() bytes.
size_t copy_to_escape(std::string_view from, char* to) {
  size_t i = 0;
#if defined(__SSE2__)
  for (; i + sizeof(__m128i) <= from.size(); i += sizeof(__m128i)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bytes);
    const auto mask =
        static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
    if (mask != 0) return i + static_cast<size_t>(std::countr_zero(mask));
  }
#endif
  for (; i < from.size() && from[i] != '\\'; ++i) to[i] = from[i];
  return i;
}

char32_t hex4_at(std::string_view raw, size_t offset) {
  char32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = 16 * value + hex_value(raw[offset + i]);
  return value;
}

bool is_high_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDBFF; }
bool is_low_surrogate(char32_t c) { return c >= 0xDC00 && c <= 0xDFFF; }

}  // namespace

// No escape is shorter than what it stands for.
void append_unescaped(std::string_view raw, std::string& out) {
  const size_t begin = out.size();
  out.resize(begin + raw.size());
  char* to = out.data() + begin;
  std::string character;
  for (size_t i = 0; i < raw.size();) {
    const size_t plain = copy_to_escape(raw.substr(i), to);
    i += plain;
    to += plain;
    if (i == raw.size()) break;
    const char kind = raw[i + 1];
    i += 2;
    constexpr std::string_view kNames = "bfnrt";
    constexpr std::string_view kBytes = "\b\f\n\r\t";
    if (kind == 'u') {
      char32_t c = hex4_at(raw, i);
      i += 4;
      if (is_high_surrogate(c)) {
        c = 0x10000 + ((c - 0xD800) << 10) + (hex4_at(raw, i + 2) - 0xDC00);
        i += 6;
      }
      character.clear();
      append_utf8(character, c);
      to = std::copy(character.begin(), character.end(), to);
    } else if (const size_t name = kNames.find(kind); name != std::string_view::npos) {
      *to++ = kBytes[name];
    } else {
      *to++ = kind;  // quote, backslash, slash
    }
  }
  out.resize(static_cast<size_t>(to - out.data()));
}

bool JsonScanner::Key::operator==(const std::string& name) const {
  if (!has_escapes) return raw == name;
  std::string key;
  append_unescaped(raw, key);
  return key == name;
}

std::vector<std::string> JsonScanner::keys() const {
  std::vector<std::string> names;
  for (const Key& key : outermost_keys_) append_unescaped(key.raw, names.emplace_back());
  return names;
}

void JsonScanner::scan() {
  Next next = Next::kValue;
  while (next != Next::kAfterValue || !open_.empty()) {
    skip_blanks();
    switch (next) {
      case Next::kValue:
        next = scan_value();
        break;
      case Next::kKey:
        next = scan_key();
        break;
      case Next::kAfterValue:
        next = after_value();
        break;
    }
  }
  skip_blanks();
  if (position_ != text_.size()) fail("more text after the end of the value");
  // As in tables, a field of an object that is null is null.
  if (at_path_.count == 0 && outer_is_null_) at_path_ = {1, Type::kNull};
  if (at_path_.count == 1 && num_outer_ >= path_.size()) ++at_path_.count;
}

void JsonScanner::skip_blanks() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') ++position_;
}

JsonScanner::Next JsonScanner::scan_value() {
  switch (peek()) {
    case '{':
      return open(Type::kObject);
    case '[':
      return open(Type::kArray);
    case '"':
      note(Type::kString, scan_string());
      return Next::kAfterValue;
    case 't':
      scan_word("true");
      note(Type::kBoolean);
      return Next::kAfterValue;
    case 'f':
      scan_word("false");
      note(Type::kBoolean);
      return Next::kAfterValue;
    case 'n':
      scan_word("null");
      note(Type::kNull);
      return Next::kAfterValue;
    case 'N':
      scan_word("NaN");
      note(Type::kNumber);
      return Next::kAfterValue;
    default:
      scan_number();
      note(Type::kNumber);
      return Next::kAfterValue;
  }
}

JsonScanner::Next JsonScanner::open(Type type) {
  note(type);
  const char bracket = type == Type::kObject ? '{' : '[';
  if (open_.size() < keys_.size()) keys_[open_.size()] = Key{};
  open_ += bracket;
  ++position_;
  skip_blanks();
  if (peek() == (type == Type::kObject ? '}' : ']')) {
    ++position_;
    open_.pop_back();
    return Next::kAfterValue;
  }
  return type == Type::kObject ? Next::kKey : Next::kValue;
}

JsonScanner::Next JsonScanner::scan_key() {
  if (peek() != '"') fail("a key in quotes is expected");
  const String key = scan_string();
  const size_t depth = open_.size();
  if (depth <= keys_.size()) keys_[depth - 1] = {key.raw, key.has_escapes};
  constexpr size_t kMostKeys = 50;
  if (depth == 1 && outermost_keys_.size() < kMostKeys) outermost_keys_.push_back(keys_[0]);
  skip_blanks();
  if (peek() != ':') fail("a colon is expected after the key");
  ++position_;
  return Next::kValue;
}

JsonScanner::Next JsonScanner::after_value() {
  const bool in_object = open_.back() == '{';
  const char c = peek();
  if (c == ',') {
    ++position_;
    return in_object ? Next::kKey : Next::kValue;
  }
  if (c != (in_object ? '}' : ']'))
    fail(in_object ? "a comma or } is expected" : "a comma or ] is expected");
  ++position_;
  open_.pop_back();
  return Next::kAfterValue;
}

JsonScanner::String JsonScanner::scan_string() {
  const size_t begin = ++position_;
  bool has_escapes = false;
  for (;;) {
    position_ += plain_bytes(text_.substr(position_));
    if (position_ == text_.size()) fail("the string does not end");
    const char c = text_[position_];
    if (c == '"') break;
    if (c != '\\') fail("a control character in a string, where it must be escaped");
    has_escapes = true;
    scan_escape();
  }
  return {text_.substr(begin, position_++ - begin), has_escapes};
}

void JsonScanner::scan_escape() {
  const size_t begin = position_++;
  const char kind = peek();
  if (kind == '\0' || std::string_view("\"\\/bfnrtu").find(kind) == std::string_view::npos) {
    position_ = begin;
    fail("an escape that JSON does not have");
  }
  ++position_;
  if (kind != 'u') return;
  const char32_t first = scan_hex4();
  if (is_high_surrogate(first) && text_.substr(position_).starts_with("\\u")) {
    position_ += 2;
    if (is_low_surrogate(scan_hex4())) return;
  } else if (!is_high_surrogate(first) && !is_low_surrogate(first)) {
    return;
  }
  position_ = begin;
  fail("half of a surrogate pair, which is no character");
}

unsigned JsonScanner::scan_hex4() {
  unsigned value = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    const unsigned digit = hex_value(peek());
    if (digit > 15) fail("four hexadecimal digits are expected after \\u");
    value = 16 * value + digit;
  }
  return value;
}

void JsonScanner::scan_number() {
  if (peek() == '-') ++position_;
  if (peek() == 'I') return scan_word("Infinity");
  if (!is_digit(peek())) fail("no JSON value");
  if (peek() == '0') {
    ++position_;
  } else {
    scan_digits();
  }
  if (peek() == '.') {
    ++position_;
    scan_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++position_;
    if (peek() == '+' || peek() == '-') ++position_;
    scan_digits();
  }
}

void JsonScanner::scan_digits() {
  if (!is_digit(peek())) fail("a digit is expected");
  while (is_digit(peek())) ++position_;
}

void JsonScanner::scan_word(std::string_view word) {
  if (!text_.substr(position_).starts_with(word)) fail("no JSON value");
  position_ += word.size();
}

void JsonScanner::note(Type type, const String& string) {
  const size_t depth = open_.size();
  if (depth == 0) type_ = type;
  const auto found = [&](Found& match) {
    ++match.count;
    match.type = type;
    match.raw = string.raw;
    match.has_escapes = string.has_escapes;
  };
  // An array has no key: open() has left an empty one, so what lies in it needs the brackets.
  if (depth == 1 && open_[0] == '{' && keys_[0] == field_) found(at_field_);
  if (depth == 0 || depth > path_.size() || open_.find('[') != std::string::npos) return;
  const auto end = keys_.begin() + static_cast<ptrdiff_t>(depth);
  if (!std::equal(keys_.begin(), end, path_.begin())) return;
  if (depth == path_.size()) return found(at_path_);
  ++num_outer_;
  outer_is_null_ = outer_is_null_ || type == Type::kNull;
}

namespace {

using Type = JsonScanner::Type;

const char* name_of(Type type) {
  constexpr const char* kNames[] = {"nothing", "null",  "boolean", "number",
                                    "string",  "array", "object"};
  return kNames[static_cast<size_t>(type)];
}

JsonText problem(std::string what, std::string advice = "") {
  return {JsonText::Kind::kProblem, {}, std::move(what), std::move(advice)};
}

JsonText syntax_problem(size_t offset, std::string_view what) {
  return problem(str("not JSON at column ", offset + 1, ": ", what),
                 "every line must be one JSON object in UTF-8: correct the line or remove it");
}

JsonText missing_field(const std::string& field, const std::vector<std::string>& names) {
  const std::string nearest = nearest_word(field, names);
  if (!nearest.empty())
    return problem(str("no field ", quote(field)),
                   str("did you mean ", quote(nearest), " (data.text_field)?"));
  return problem(str("no field ", quote(field), " (data.text_field)"),
                 str("the line has: ", quoted_list(names, names.size())));
}

}  // namespace

JsonLineParser::JsonLineParser(std::string field)
    : field_(std::move(field)), path_(key_parts(field_)) {}

JsonText JsonLineParser::parse(std::string_view line) {
  if (const size_t valid = valid_utf8_prefix(line); valid < line.size())
    return syntax_problem(valid, "a byte that is not UTF-8");
  JsonScanner scanner(line, field_, path_);
  try {
    scanner.scan();
  } catch (const JsonSyntaxError& error) {
    return syntax_problem(error.offset, error.what);
  }
  if (scanner.type() != Type::kObject)
    return problem(str("the line holds ", name_of(scanner.type()), " instead of an object"));
  const JsonScanner::Found& found = scanner.field().count > 0 ? scanner.field() : scanner.path();
  if (found.count == 0) return missing_field(field_, scanner.keys());
  if (found.count > 1)
    return problem(str("field ", quote(field_), " is there ", found.count, " times"));
  if (found.type == Type::kNull) return {JsonText::Kind::kNull};
  if (found.type != Type::kString)
    return problem(
        str("field ", quote(field_), " is ", name_of(found.type), " instead of a string"));
  if (!found.has_escapes) return {JsonText::Kind::kText, found.raw};
  text_.clear();
  append_unescaped(found.raw, text_);
  return {JsonText::Kind::kText, text_};
}

}  // namespace lmtrain
