// Text that tokenizers have got wrong.
#pragma once

#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/model_proto.h"

namespace lmtrain {

using Random = std::mt19937_64;

inline const std::string kMark(kSpaceMark);

// The first 200 bytes, for messages.
inline std::string hex(std::string_view text) {
  std::string digits;
  for (const char c : text.substr(0, 200)) {
    std::array<char, 4> two{};
    std::snprintf(two.data(), two.size(), "%02X ", static_cast<unsigned>(c) & 0xFFU);
    digits += two.data();
  }
  return digits;
}

// What has ever been trouble: spaces, U+2581 itself, controls, NUL, combining marks, emoji,
// malformed and cut sequences, surrogates, overlong forms, names of special pieces.
inline const std::vector<std::string>& hard_parts() {
  static const std::vector<std::string> kParts = {" ",
                                                  "  ",
                                                  "   ",
                                                  "\n",
                                                  "\n\n",
                                                  "\t",
                                                  "\r\n",
                                                  std::string(1, '\0'),
                                                  "\x01",
                                                  "\x7F",
                                                  "a",
                                                  "b",
                                                  "ab",
                                                  "the",
                                                  " the",
                                                  "self",
                                                  "_",
                                                  "(",
                                                  "):",
                                                  "0",
                                                  "42",
                                                  kMark,
                                                  kMark + kMark,
                                                  "\xC3\xA9",
                                                  "e\xCC\x81",
                                                  "\xCC\x81",
                                                  "\xE6\x9D\xB1\xE4\xBA\xAC",
                                                  "\xE3\x81\x82",
                                                  "\xD0\xB6\xD0\xB0",
                                                  "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9",
                                                  "\xF0\x9F\x98\x80",
                                                  "\xEF\xBB\xBF",
                                                  "\xEF\xBF\xBD",
                                                  "\xE2\x96\x85",
                                                  "\xC2\xA0",
                                                  "\xE3\x80\x80",
                                                  "\xE2\x80\xA8",
                                                  "\xFF",
                                                  "\xC0\xAF",
                                                  "\xE2\x96",
                                                  "\xE2",
                                                  "\x81",
                                                  "\xED\xA0\x80",
                                                  "\xF4\x90\x80\x80",
                                                  "\xF8\x88\x80\x80\x80",
                                                  "<s>",
                                                  "</s>",
                                                  "<unk>",
                                                  "<0x41>",
                                                  "<sep>",
                                                  "<sep",
                                                  "a b",
                                                  "\xEF\xAC\x81"};
  return kParts;
}

inline std::string hard_text(Random& random, size_t most) {
  std::string text;
  for (size_t i = random() % (most + 1); i > 0; --i)
    text += hard_parts()[random() % hard_parts().size()];
  return text;
}

}  // namespace lmtrain
