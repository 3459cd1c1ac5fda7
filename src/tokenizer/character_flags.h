// The classes of characters that the rules of split_scanner.h tell apart. The table is made from
// the expressions of SplitRegex, so that both have the same Unicode. It is immutable, and threads
// may share it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lmtrain {

class CharacterFlags {
 public:
  static constexpr uint8_t kLetter = 1;   // \p{L}
  static constexpr uint8_t kNumber = 2;   // \p{N}
  static constexpr uint8_t kSpace = 4;    // \s
  static constexpr uint8_t kNewline = 8;  // CR or LF; each is a space too
  static constexpr uint8_t kMark = 16;    // \p{M}
  static constexpr uint8_t kUpper = 32;   // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  static constexpr uint8_t kLower = 64;   // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

  // The first call makes the table, in some milliseconds.
  static const CharacterFlags& get();

  // Requires a code point of Unicode.
  uint8_t of(char32_t code_point) const {
    return flags_[blocks_[code_point / kBlock] * kBlock + code_point % kBlock];
  }

  static constexpr uint8_t of_ascii(unsigned char c) {
    if (c >= 'a' && c <= 'z') return kLetter | kLower;
    if (c >= 'A' && c <= 'Z') return kLetter | kUpper;
    if (c >= '0' && c <= '9') return kNumber;
    if (c == '\r' || c == '\n') return kSpace | kNewline;
    return c == ' ' || (c >= '\t' && c <= '\r') ? kSpace : uint8_t{0};
  }

 private:
  static constexpr uint32_t kBlock = 128;

  CharacterFlags();

  std::array<uint16_t, 0x110000 / kBlock> blocks_{};  // which block of flags_
  std::vector<uint8_t> flags_;                        // blocks; equal ones stand once
};

}  // namespace lmtrain
