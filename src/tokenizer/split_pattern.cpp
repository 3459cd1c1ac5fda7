// pcre2_pattern() of split_regex.h. The two syntaxes are described in Oniguruma's doc/RE and in
// pcre2pattern(3).
#include "base/error.h"
#include "base/text.h"
#include "tokenizer/split_regex.h"
#include "tokenizer/unicode_additions.h"

namespace lmtrain {
namespace {

// White_Space of Unicode, which \s means, and what is left of all characters without it. PCRE2's \s
// has U+180E too.
constexpr std::string_view kSpaces =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff})"
    R"(\x{e000}-\x{10ffff})";

// The general categories that are accepted in \p{...}. Mn and Mc are left out: Unicode 16 moved a
// character from one to the other.
constexpr std::string_view kCategories =
    " L Lu Ll Lt Lm Lo M Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp ";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string hexadecimal(char32_t code_point) {
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[code_point % 16]);
    code_point /= 16;
  } while (code_point > 0);
  return "\\x{" + digits + "}";
}

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& origin)
      : pattern_(pattern), origin_(origin) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(/*in_class=*/false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(size_t size, std::string_view why) const {
    throw Error(ErrorKind::kData,
                str(origin_, ": ", quote(pattern_.substr(at_, size)), " at byte ", at_,
                    " of the regular expression ", quote(pattern_), " is not supported: ", why,
                    "; give another tokenizer, or its sentencepiece model where it has one"));
  }

  // The characters of a category, as the inside of a class.
  static std::string members(std::string_view category) {
    // PCRE2 looks up a property in tables, and an ASCII character of a class in a bitmap.
    std::string text = category == "L"                       ? "A-Za-z"
                       : category == "N" || category == "Nd" ? "0-9"
                                                             : "";
    text += str("\\p{", category, "}");
    for (const UnicodeAddition& addition : kUnicodeAdditions) {
      if (!addition.category.starts_with(category)) continue;
      text += hexadecimal(addition.first);
      if (addition.last > addition.first) text += "-" + hexadecimal(addition.last);
    }
    return text;
  }

  void add_set(std::string_view inside, bool is_negated, bool in_class) {
    if (in_class && is_negated) refuse(2, "a negated property in a class");
    out_ += in_class ? std::string(inside) : str(is_negated ? "[^" : "[", inside, "]");
  }

  // \p{L}, \p{^L}, \P{L}
  void property(bool in_class) {
    const size_t close = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || close == std::string_view::npos)
      refuse(3, "a property is \\p{NAME}");
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    bool is_negated = pattern_[at_ + 1] == 'P';
    if (name.starts_with("^")) {
      is_negated = !is_negated;
      name.remove_prefix(1);
    }
    if (name.empty() || kCategories.find(str(" ", name, " ")) == std::string_view::npos)
      refuse(close + 1 - at_, "properties are general categories such as L, Lu, N, P");
    add_set(members(name), is_negated, in_class);
    at_ = close + 1;
  }

  // A code point in hexadecimal that is `size` bytes of the pattern, `digits` of them digits.
  void code_point(std::string_view digits, size_t size) {
    char32_t value = 0;
    // The pattern may end before its digits do.
    bool is_good = !digits.empty() && digits.size() <= 6 && at_ + size <= pattern_.size();
    for (const char c : digits) {
      const size_t digit = std::string_view("0123456789abcdef").find(lower_case(str(c)));
      is_good = is_good && digit != std::string_view::npos;
      value = value * 16 + static_cast<char32_t>(digit & 15U);
    }
    if (!is_good || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      refuse(size, "it is no code point");
    out_ += hexadecimal(value);
    at_ += size;
  }

  void escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse(1, "the pattern ends in a backslash");
    const char c = pattern_[at_ + 1];
    const std::string_view rest = pattern_.substr(at_ + 2);
    switch (c) {
      case 'p':
      case 'P':
        property(in_class);
        return;
      case 's':
        add_set(kSpaces, false, in_class);
        break;
      case 'S':
        add_set(in_class ? kNoSpaces : kSpaces, !in_class, in_class);
        break;
      case 'd':
      case 'D':
        add_set(members("Nd"), c == 'D', in_class);
        break;
      case 'v':
        out_ += "\\x0b";
        break;
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'a':
      case 'e':
        out_ += str("\\", c);
        break;
      case 'u':
        code_point(rest.substr(0, 4), 6);
        return;
      case 'x':
        if (rest.starts_with("{")) {
          const size_t close = rest.find('}');
          if (close == std::string_view::npos) refuse(3, "the brace is not closed");
          code_point(rest.substr(1, close - 1), close + 3);
        } else {
          if (rest.empty() || rest[0] > '7') refuse(4, "a byte above 0x7F");
          code_point(rest.substr(0, 2), 4);
        }
        return;
      default:
        if (is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80)
          refuse(2, "an escape that is not known");
        out_ += str("\\", c);
    }
    at_ += 2;
  }

  void character_class() {
    out_ += '[';
    ++at_;
    if (at_ < pattern_.size() && pattern_[at_] == '^') {
      out_ += '^';
      ++at_;
    }
    if (at_ < pattern_.size() && pattern_[at_] == ']') refuse(1, "a class that begins with ]");
    // A class in a class, as BLOOM has, is the union of both: its members are written out.
    int depth = 1;
    bool is_at_edge = false;  // behind the bracket of an inner class
    for (;;) {
      if (at_ >= pattern_.size()) refuse(1, "a class is not closed");
      const char c = pattern_[at_];
      const std::string_view rest = pattern_.substr(at_);
      if (c == ']') {
        ++at_;
        if (--depth == 0) break;
        is_at_edge = true;
        continue;
      }
      if (c == '[') {
        if (rest.starts_with("[^") || rest.starts_with("[:") || rest.starts_with("[]"))
          refuse(2, "such a class in a class");
        if (out_.ends_with('-')) refuse(2, "a range to a class");
        ++depth;
        ++at_;
        is_at_edge = true;
        continue;
      }
      if (rest.starts_with("&&")) refuse(2, "an intersection of classes");
      if (c == '-' && depth > 1 && (is_at_edge || rest.starts_with("-]"))) {
        out_ += "\\-";
        ++at_;
      } else if (c == '-' && is_at_edge) {
        refuse(2, "a range from a class");
      } else if (c == '\\') {
        escape(/*in_class=*/true);
      } else {
        out_ += c;
        ++at_;
      }
      is_at_edge = false;
    }
    out_ += ']';
  }

  void group() {
    const std::string_view rest = pattern_.substr(at_);
    if (!rest.starts_with("(?")) {
      if (rest.starts_with("(*")) refuse(2, "a verb");
      out_ += '(';
      ++at_;
      return;
    }
    for (const std::string_view kind : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (!rest.starts_with(kind)) continue;
      out_ += kind;
      at_ += kind.size();
      return;
    }
    refuse(4, "a group that is not known");
  }

  // {n}, {n,} and {n,m}; a brace of another kind is a character.
  void interval() {
    const std::string_view rest = pattern_.substr(at_);
    const size_t close = rest.find('}');
    const std::string_view inside =
        close == std::string_view::npos ? std::string_view() : rest.substr(1, close - 1);
    if (inside.starts_with(",")) refuse(close + 1, "an interval without its least number");
    if (inside.empty() || inside.find_first_not_of("0123456789,") != std::string_view::npos) {
      out_ += "\\{";
      ++at_;
      return;
    }
    const std::string_view after = rest.substr(close + 1);
    if (after.starts_with("+") || after.starts_with("?"))
      refuse(close + 2, "an interval that is possessive or lazy");
    out_ += rest.substr(0, close + 1);
    at_ += close + 1;
  }

  std::string_view pattern_;
  const std::string& origin_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& origin) {
  return Translation(pattern, origin).run();
}

}  // namespace lmtrain
