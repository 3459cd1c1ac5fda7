// Bytes as texts, and the numbers in them. Numbers are little-endian, as this machine has them.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace lmtrain {

// Returns the bytes of a literal, which may hold zeros.
template <size_t kSize>
constexpr std::string_view bytes_of(const char (&literal)[kSize]) {
  return {literal, kSize - 1};
}

// Returns the bytes of a number or a plain struct, which must outlive them.
template <class Object>
std::string_view object_bytes(const Object& object) {
  return {reinterpret_cast<const char*>(&object), sizeof object};
}

// Returns the number whose bytes begin at `bytes`, aligned or not.
template <class Number>
Number value_at(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

}  // namespace lmtrain
