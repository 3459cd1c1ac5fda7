#include "eval/white_space.h"

#include "base/utf8.h"

namespace lmtrain {
namespace {

// The characters for which Python's str.isspace() is true.
bool is_space(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

// The size in bytes of the white space that `text` begins with: one character, or 0.
size_t space_before(std::string_view text) {
  char32_t c = 0;
  const size_t size = decode_utf8(text, c);
  return size > 0 && is_space(c) ? size : 0;
}

}  // namespace

std::string_view without_space_behind(std::string_view text) {
  for (;;) {
    size_t last = text.empty() ? 0 : text.size() - 1;
    while (last > 0 && is_utf8_continuation(text[last])) --last;
    const size_t size = space_before(text.substr(last));
    if (size == 0 || last + size != text.size()) return text;  // bytes behind it are no UTF-8
    text = text.substr(0, last);
  }
}

std::string_view without_space_around(std::string_view text) {
  for (size_t size = 0; (size = space_before(text)) > 0;) text.remove_prefix(size);
  return without_space_behind(text);
}

}  // namespace lmtrain
