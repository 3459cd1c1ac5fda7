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

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    char32_t character = 0;
    const size_t size = decode_utf8(token, character);
    if (size == 0) return std::nullopt;
    token.remove_prefix(size);
    if (character < 0x100 && is_itself(character)) {
      bytes.push_back(static_cast<char>(character));
    } else if (character >= 0x100 && character < 0x100 + kNumOthers) {
      bytes.push_back(static_cast<char>(kOthers[character - 0x100]));
    } else {
      return std::nullopt;
    }
  }
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
