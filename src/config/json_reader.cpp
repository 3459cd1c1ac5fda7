// The parser: recursive descent, one function a production of RFC 8259. nlohmann's keeps neither
// lines nor duplicate keys, and turns 1e999 into infinity.

#include "config/json_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "base/foreign_text.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxShown = 80;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A printable name of the character at `at`, for messages.
std::string spell(std::string_view text, size_t at) {
  if (at >= text.size()) return "the end";
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == '"') return "'\"'";
  char32_t code_point = 0;
  const size_t length = decode_utf8(text.substr(at), code_point);
  if (byte >= 0x20 && byte != 0x7F && length > 0) {
    return "\"" + std::string(text.substr(at, length)) + "\"";
  }
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
}

class Reader {
 public:
  Reader(std::string_view text, std::string label, bool is_file)
      : text_(text), label_(std::move(label)), is_file_(is_file) {}

  JsonReadResult read() {
    JsonReadResult result;
    try {
      result.root = document();
    } catch (const SyntaxError& error) {
      problems_.push_back(error.line);
    }
    result.problems = std::move(problems_);
    return result;
  }

 private:
  struct SyntaxError {
    std::string line;
  };

  JsonNode document() {
    if (text_.starts_with(kByteOrderMark)) {
      fail("begins with a byte order mark (EF BB BF); save it as UTF-8 without one");
    }
    const bool is_json = text_.starts_with('{') || text_.starts_with('[');
    const std::string_view head = text_.substr(0, kForeignHeadBytes);
    if (const std::string other = is_json ? std::string() : foreign_data(head); !other.empty())
      fail("is " + other);
    skip_space();
    if (at_ == text_.size()) fail("is empty; expected a JSON value");
    JsonNode root = value(0);
    skip_space();
    if (at_ < text_.size()) {
      fail("expected the end after the JSON value, found " + spell(text_, at_));
    }
    return root;
  }

  JsonNode value(int depth) {
    if (depth > kMaxDepth) fail(str("nested deeper than ", kMaxDepth, " levels"));
    JsonNode node;
    node.where = where();
    const char c = peek();
    if (c == '{') {
      object(node, depth);
    } else if (c == '[') {
      array(node, depth);
    } else if (c == '"') {
      node.type = JsonNode::Type::kString;
      node.text = string();
    } else if (c == '-' || is_digit(c)) {
      number(node);
    } else {
      word(node);
    }
    return node;
  }

  void object(JsonNode& node, int depth) {
    node.type = JsonNode::Type::kObject;
    const std::string opened = where();
    std::map<std::string, std::string> seen;  // key -> where
    ++at_;
    skip_space();
    if (take('}')) return;
    while (true) {
      if (peek() != '"') fail_in("object", opened, "expected a key in double quotes");
      JsonMember member;
      member.key_where = where();
      member.key = string();
      skip_space();
      if (!take(':'))
        fail_in("object", opened, "expected \":\" after key \"" + printable(member.key) + "\"");
      skip_space();
      const size_t outer = pointer_.size();
      pointer_ += "/" + pointer_component(member.key);
      const auto [first, is_new] = seen.emplace(member.key, member.key_where);
      if (!is_new) {
        problems_.push_back(member.key_where + ": " + pointer_ +
                            ": key stands twice in one object, first at " + first->second +
                            "; keep one");
      }
      member.value = value(depth + 1);
      if (is_new) node.members.push_back(std::move(member));
      pointer_.resize(outer);
      skip_space();
      if (take('}')) return;
      if (!take(',')) fail_in("object", opened, "expected \",\" or \"}\"");
      skip_space();
      if (peek() == '}') fail("a comma before \"}\" is not allowed; remove it");
    }
  }

  void array(JsonNode& node, int depth) {
    node.type = JsonNode::Type::kArray;
    const std::string opened = where();
    ++at_;
    skip_space();
    if (take(']')) return;
    while (true) {
      const size_t outer = pointer_.size();
      pointer_ += str('/', node.items.size());
      node.items.push_back(value(depth + 1));
      pointer_.resize(outer);
      skip_space();
      if (take(']')) return;
      if (!take(',')) fail_in("array", opened, "expected \",\" or \"]\"");
      skip_space();
      if (peek() == ']') fail("a comma before \"]\" is not allowed; remove it");
    }
  }

  void word(JsonNode& node) {
    size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_')) {
      ++end;
    }
    const std::string_view found = text_.substr(at_, end - at_);
    if (found == "true" || found == "false") {
      node.type = JsonNode::Type::kBool;
      node.boolean = found == "true";
    } else if (found != "null") {
      if (found.empty()) fail("expected a value, found " + spell(text_, at_));
      fail("\"" + std::string(found.substr(0, kMaxShown)) +
           "\" is not a JSON value; text goes in double quotes");
    }
    at_ = end;
  }

  void number(JsonNode& node) {
    node.type = JsonNode::Type::kNumber;
    const size_t begin = at_;
    take('-');
    if (!is_digit(peek())) fail("expected a digit after \"-\"");
    if (peek() == '0' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
      fail("a number does not begin with 0");
    }
    digits();
    if (take('.')) {
      if (!is_digit(peek())) fail("expected a digit after \".\"");
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!is_digit(peek())) fail("expected a digit in the exponent");
      digits();
    }
    node.text = std::string(text_.substr(begin, at_ - begin));
    const char* first = node.text.data();
    const char* last = first + node.text.size();
    if (std::from_chars(first, last, node.number).ec != std::errc{}) {
      node.number = std::numeric_limits<double>::infinity();
    }
    int64_t integer = 0;
    const auto parsed = std::from_chars(first, last, integer);
    if (parsed.ec == std::errc{} && parsed.ptr == last) {
      node.integer = integer;
    } else if (std::abs(node.number) <= 0x1p53 && node.number == std::trunc(node.number)) {
      node.integer = static_cast<int64_t>(node.number);
    }
  }

  std::string string() {
    const std::string opened = where();
    std::string out;
    ++at_;
    while (true) {
      if (at_ == text_.size()) fail_at(opened, "a string is not closed; add '\"'");
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte == '"') break;
      if (byte == '\n' || byte == '\r') fail_at(opened, "a string is not closed on its line");
      if (byte < 0x20) {
        fail(spell(text_, at_) + " in a string; write it as an escape such as \\t or \\u0009");
      }
      if (byte == '\\') {
        escape(out);
        continue;
      }
      char32_t code_point = 0;
      const size_t length = decode_utf8(text_.substr(at_), code_point);
      if (length == 0) fail(spell(text_, at_) + " is not UTF-8; save the file as UTF-8");
      out += text_.substr(at_, length);
      at_ += length;
    }
    ++at_;
    return out;
  }

  void escape(std::string& out) {
    ++at_;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (c == 'u') {
      ++at_;
      uint32_t code = hex4();
      if (code >= 0xD800 && code < 0xDC00) {
        if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair in an escape");
        at_ += 2;
        const uint32_t low = hex4();
        if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair in an escape");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else if (code >= 0xDC00 && code <= 0xDFFF) {
        fail("half of a surrogate pair in an escape");
      } else if (code == 0) {
        fail("a string cannot hold the character 0");
      }
      append_utf8(out, code);
      return;
    }
    const size_t index = at_ < text_.size() ? kNames.find(c) : std::string_view::npos;
    if (index == std::string_view::npos) {
      fail("unknown escape: a backslash and " + spell(text_, at_) + "; a backslash itself is \\\\");
    }
    out += kValues[index];
    ++at_;
  }

  uint32_t hex4() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || parsed.ptr != digits.data() + 4) {
      fail("\\u needs four hexadecimal digits");
    }
    at_ += 4;
    return code;
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        skip_byte();
      } else if (c == '/') {
        comment();
      } else {
        break;
      }
    }
  }

  void comment() {
    if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    if (text_.substr(at_, 2) != "/*") fail("expected a value, found \"/\"");
    const std::string opened = where();
    at_ += 2;
    while (text_.substr(at_, 2) != "*/") {
      if (at_ >= text_.size()) fail_at(opened, "a /* comment is not closed");
      skip_byte();
    }
    at_ += 2;
  }

  // Skips a byte, which may end a line.
  void skip_byte() {
    if (text_[at_++] != '\n') return;
    ++line_;
    line_begin_ = at_;
  }

  void digits() {
    while (is_digit(peek())) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string where() const { return is_file_ ? str(label_, ':', line_) : label_; }
  [[noreturn]] void fail(const std::string& what) const {
    fail_at(is_file_ ? str(where(), ':', at_ - line_begin_ + 1) : label_, what);
  }
  [[noreturn]] void fail_in(const std::string& what, const std::string& opened,
                            const std::string& expected) const {
    std::string line = expected + ", found " + spell(text_, at_);
    if (is_file_) line += ", in the " + what + " that begins at " + opened;
    fail(line);
  }
  [[noreturn]] static void fail_at(const std::string& location, const std::string& what) {
    throw SyntaxError{location + ": " + what};
  }

  std::string_view text_;
  std::string label_;
  bool is_file_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
  std::string pointer_;  // of the value being read
  std::vector<std::string> problems_;
};

}  // namespace

JsonReadResult read_json_file_text(std::string_view text, const std::string& origin) {
  return Reader(text, origin, true).read();
}

JsonReadResult read_json_argument(std::string_view text, const std::string& label) {
  return Reader(text, label, false).read();
}

// Searching, quoting and converting the tree once it is read.

const JsonNode* JsonNode::find(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

JsonNode* JsonNode::find(std::string_view key) {
  return const_cast<JsonNode*>(static_cast<const JsonNode*>(this)->find(key));
}

nlohmann::ordered_json to_json(const JsonNode& node) {
  switch (node.type) {
    case JsonNode::Type::kNull:
      break;
    case JsonNode::Type::kBool:
      return node.boolean;
    case JsonNode::Type::kNumber:
      if (node.integer) return *node.integer;
      return node.number;
    case JsonNode::Type::kString:
      return node.text;
    case JsonNode::Type::kArray: {
      nlohmann::ordered_json out = nlohmann::ordered_json::array();
      for (const JsonNode& item : node.items) out.push_back(to_json(item));
      return out;
    }
    case JsonNode::Type::kObject: {
      nlohmann::ordered_json out = nlohmann::ordered_json::object();
      for (const JsonMember& member : node.members) out[member.key] = to_json(member.value);
      return out;
    }
  }
  return nullptr;
}

std::string quote_json(const JsonNode& node) {
  constexpr size_t kMaxQuoted = 80;
  std::string text = node.is(JsonNode::Type::kNumber) ? node.text : to_json(node).dump();
  if (text.size() <= kMaxQuoted) return text;
  return std::string(utf8_prefix(text, kMaxQuoted - 3)) + "...";
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      const std::string quoted = nlohmann::json(std::string(1, c)).dump();
      out += quoted.substr(1, quoted.size() - 2);
    } else {
      out += c;
    }
  }
  return out;
}

std::string pointer_component(std::string_view key) {
  std::string out;
  for (const char c : printable(key)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace lmtrain
