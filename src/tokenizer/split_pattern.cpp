// pcre2_pattern() of split_regex.h. The two syntaxes are described in Oniguruma's doc/RE and in
// pcre2pattern(3).
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/split_regex.h"

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

struct UnicodeAddition {
  char32_t first;
  char32_t last;
  std::string_view category;
};
// The characters that Unicode 15, 15.1 and 16 added to Unicode 14, with their general categories
// (UnicodeData.txt of 16.0.0). PCRE2 10.42 knows Unicode 14, Hugging Face's `tokenizers` 0.23 knows
// Unicode 16. Format characters (Cf) are left out: patterns cannot name their category.
constexpr UnicodeAddition kUnicodeAdditions[] = {
    {0x897, 0x897, "Mn"},     {0xCF3, 0xCF3, "Mc"},     {0xECE, 0xECE, "Mn"},
    {0x1B4E, 0x1B4F, "Po"},   {0x1B7F, 0x1B7F, "Po"},   {0x1C89, 0x1C89, "Lu"},
    {0x1C8A, 0x1C8A, "Ll"},   {0x2427, 0x2429, "So"},   {0x2FFC, 0x2FFF, "So"},
    {0x31E4, 0x31E5, "So"},   {0x31EF, 0x31EF, "So"},   {0xA7CB, 0xA7CC, "Lu"},
    {0xA7CD, 0xA7CD, "Ll"},   {0xA7DA, 0xA7DA, "Lu"},   {0xA7DB, 0xA7DB, "Ll"},
    {0xA7DC, 0xA7DC, "Lu"},   {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "Nd"},
    {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"}, {0x10D4F, 0x10D4F, "Lo"},
    {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"}, {0x10D6E, 0x10D6E, "Pd"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "Sm"},
    {0x10EC2, 0x10EC4, "Lo"}, {0x10EFC, 0x10EFF, "Mn"}, {0x1123F, 0x11240, "Lo"},
    {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"}, {0x1138B, 0x1138B, "Lo"},
    {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"},
    {0x113B8, 0x113BA, "Mc"}, {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"},
    {0x113C5, 0x113C5, "Mc"}, {0x113C7, 0x113CA, "Mc"}, {0x113CC, 0x113CD, "Mc"},
    {0x113CE, 0x113CE, "Mn"}, {0x113CF, 0x113CF, "Mc"}, {0x113D0, 0x113D0, "Mn"},
    {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"},
    {0x113D4, 0x113D5, "Po"}, {0x113D7, 0x113D8, "Po"}, {0x113E1, 0x113E2, "Mn"},
    {0x116D0, 0x116E3, "Nd"}, {0x11B00, 0x11B09, "Po"}, {0x11BC0, 0x11BE0, "Lo"},
    {0x11BE1, 0x11BE1, "Po"}, {0x11BF0, 0x11BF9, "Nd"}, {0x11F00, 0x11F01, "Mn"},
    {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "Mc"}, {0x11F04, 0x11F10, "Lo"},
    {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F35, "Mc"}, {0x11F36, 0x11F3A, "Mn"},
    {0x11F3E, 0x11F3F, "Mc"}, {0x11F40, 0x11F40, "Mn"}, {0x11F41, 0x11F41, "Mc"},
    {0x11F42, 0x11F42, "Mn"}, {0x11F43, 0x11F4F, "Po"}, {0x11F50, 0x11F59, "Nd"},
    {0x11F5A, 0x11F5A, "Mn"}, {0x1342F, 0x1342F, "Lo"}, {0x13440, 0x13440, "Mn"},
    {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "Mn"}, {0x13460, 0x143FA, "Lo"},
    {0x16100, 0x1611D, "Lo"}, {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"},
    {0x1612D, 0x1612F, "Mn"}, {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"},
    {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"}, {0x16D6D, 0x16D6F, "Po"},
    {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"},
    {0x1B155, 0x1B155, "Lo"}, {0x1CC00, 0x1CCEF, "So"}, {0x1CCF0, 0x1CCF9, "Nd"},
    {0x1CD00, 0x1CEB3, "So"}, {0x1D2C0, 0x1D2D3, "No"}, {0x1DF25, 0x1DF2A, "Ll"},
    {0x1E030, 0x1E06D, "Lm"}, {0x1E08F, 0x1E08F, "Mn"}, {0x1E4D0, 0x1E4EA, "Lo"},
    {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "Mn"}, {0x1E4F0, 0x1E4F9, "Nd"},
    {0x1E5D0, 0x1E5ED, "Lo"}, {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"},
    {0x1E5F1, 0x1E5FA, "Nd"}, {0x1E5FF, 0x1E5FF, "Po"}, {0x1F6DC, 0x1F6DC, "So"},
    {0x1F774, 0x1F776, "So"}, {0x1F77B, 0x1F77F, "So"}, {0x1F7D9, 0x1F7D9, "So"},
    {0x1F8B2, 0x1F8BB, "So"}, {0x1F8C0, 0x1F8C1, "So"}, {0x1FA75, 0x1FA77, "So"},
    {0x1FA87, 0x1FA89, "So"}, {0x1FA8F, 0x1FA8F, "So"}, {0x1FAAD, 0x1FAAF, "So"},
    {0x1FABB, 0x1FABF, "So"}, {0x1FAC6, 0x1FAC6, "So"}, {0x1FACE, 0x1FACF, "So"},
    {0x1FADA, 0x1FADC, "So"}, {0x1FADF, 0x1FADF, "So"}, {0x1FAE8, 0x1FAE9, "So"},
    {0x1FAF7, 0x1FAF8, "So"}, {0x1FBCB, 0x1FBEF, "So"}, {0x2B739, 0x2B739, "Lo"},
    {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"},
};

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
    uint32_t value = 0;
    const char* const end = digits.data() + digits.size();
    // The pattern may end before its digits do.
    const bool is_good = !digits.empty() && digits.size() <= 6 && at_ + size <= pattern_.size() &&
                         std::from_chars(digits.data(), end, value, 16).ptr == end;
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
