// UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

// Returns the size in bytes (1 to 4) of the valid character that `text` begins with, and stores its
// code point in `code_point`. Returns 0 when `text` is empty or begins with no valid character;
// `code_point` then stays as it is.
size_t decode_utf8(std::string_view text, char32_t& code_point);

// Returns how many bytes at the beginning of `text` are valid characters.
size_t valid_utf8_prefix(std::string_view text);
// The byte order mark that some programs put before a text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
inline bool is_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// Returns whether `byte` is a continuation byte: any byte of a character except its first.
inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// U+FFFD stands for what is no character.
inline constexpr char32_t kReplacementCharacter = 0xFFFD;
// Appends `text` to `out`. U+FFFD replaces each byte that is no part of a valid character.
void append_replacing_malformed(std::string& out, std::string_view text);
// Returns `text` with U+FFFD for each byte that is no part of a valid character.
std::string replacing_malformed(std::string_view text);

// Returns the first `most` bytes of `text`, or fewer so that no character is cut. Malformed bytes
// stay.
std::string_view utf8_prefix(std::string_view text, size_t most);

// Appends the bytes of one character. Requires a code point below 0x110000 that is no surrogate.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace lmtrain
