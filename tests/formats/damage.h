// What can happen to the bytes of a file: bits flip, it is cut short, grows, loses a page. Tests
// run a reader over every damaged copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "base/text.h"

namespace lmtrain::testing {

// Calls `check(bytes, what)` with copies of `whole` that all differ from it: every bit of the first
// `header_size` bytes flipped, 200 random bits, truncations, one byte more, 4 KiB of zeros.
inline void for_each_damage(
    const std::string& whole, size_t header_size,
    const std::function<void(const std::string& bytes, const std::string& what)>& check) {
  std::mt19937_64 random(17);
  std::string bytes = whole;
  const auto flip = [&](size_t offset, unsigned bit) {
    bytes[offset] = static_cast<char>(static_cast<unsigned char>(bytes[offset]) ^ (1U << bit));
  };
  const auto check_flip = [&](size_t offset, unsigned bit) {
    flip(offset, bit);
    check(bytes, str("bit ", bit, " of byte ", offset, " flipped"));
    flip(offset, bit);
  };
  for (size_t offset = 0; offset < std::min(header_size, whole.size()); ++offset) {
    for (unsigned bit = 0; bit < 8; ++bit) check_flip(offset, bit);
  }
  for (int i = 0; i < 200; ++i) {
    check_flip(random() % whole.size(), static_cast<unsigned>(random() % 8));
  }

  const auto check_cut = [&](size_t size) {
    if (size < whole.size()) check(whole.substr(0, size), str("cut to ", size, " bytes"));
  };
  for (const size_t size : {0U, 1U, 7U, 8U, 9U}) check_cut(size);
  check_cut(whole.size() - 1);
  for (int i = 0; i < 50; ++i) check_cut(random() % whole.size());

  for (const char c : {'\0', ' ', '\n', 'x'}) check(whole + c, "one byte appended");

  for (size_t page = 0; page < whole.size(); page += 4096) {
    const size_t size = std::min<size_t>(4096, whole.size() - page);
    bytes.replace(page, size, std::string(size, '\0'));
    if (bytes != whole) check(bytes, str("page at byte ", page, " zeroed"));
    bytes = whole;
  }
}

}  // namespace lmtrain::testing
