// UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

// The size in bytes (1 to 4) of the valid character that `text` begins with, whose code point is
// stored in `code_point`. 0 when `text` is empty or begins with no valid character; `code_point`
// then stays as it is.
size_t decode_utf8(std::string_view text, char32_t& code_point);

// The number of bytes of `text` that are valid characters, before the first byte that is not.
size_t valid_utf8_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// Whether `byte` is a continuation byte: any byte of a character except its first.
inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// Appends the bytes of one character. Requires a code point below 0x110000 that is no surrogate.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace lmtrain
