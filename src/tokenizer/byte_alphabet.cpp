#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace lmtrain {
namespace {

constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}
constexpr unsigned kNumOthers = 68;

// The bytes that do not stand for themselves, in order.
constexpr std::array<unsigned char, kNumOthers> other_bytes() {
  std::array<unsigned char, kNumOthers> bytes{};
  size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!is_itself(byte)) bytes[count++] = static_cast<unsigned char>(byte);
  }
  return bytes;
}
constexpr std::array<unsigned char, kNumOthers> kOthers = other_bytes();

// By character of the alphabet: its byte, or -1.
constexpr std::array<int16_t, 0x100 + kNumOthers> kBytes = [] {
  std::array<int16_t, 0x100 + kNumOthers> bytes{};
  for (unsigned i = 0; i < 0x100; ++i)
    bytes[i] = is_itself(i) ? static_cast<int16_t>(i) : int16_t{-1};
  for (unsigned i = 0; i < kNumOthers; ++i) bytes[0x100 + i] = kOthers[i];
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes(token.size(), '\0');
  size_t count = 0;
  for (size_t i = 0; i < token.size(); ++i) {
    size_t character = static_cast<unsigned char>(token[i]);
    if (character >= 0x80) {
      // The alphabet has characters of one byte and of two, 110xxxxx 10xxxxxx.
      const bool are_two = character >= 0xC2 && character < 0xE0 && i + 1 < token.size() &&
                           is_utf8_continuation(token[i + 1]);
      if (!are_two) return std::nullopt;
      character = (character & 0x1FU) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3FU);
    }
    if (character >= kBytes.size() || kBytes[character] < 0) return std::nullopt;
    bytes[count++] = static_cast<char>(kBytes[character]);
  }
  bytes.resize(count);
  return bytes;
}

std::string token_of_byte(unsigned char byte) {
  std::string token;
  if (is_itself(byte)) {
    append_utf8(token, byte);
    return token;
  }
  char32_t character = 0x100;
  while (kOthers[character - 0x100] != byte) ++character;
  append_utf8(token, character);
  return token;
}

}  // namespace lmtrain
