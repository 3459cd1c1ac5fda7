// Bytes as texts, and the numbers in them. Numbers are little-endian, as this machine has them.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace lmtrain {

// Returns the bytes of a literal, which may hold zeros.
template <size_t kSize>
constexpr std::string_view literal_bytes(const char (&literal)[kSize]) {
  return {literal, kSize - 1};
}

// Returns the bytes of a number or a plain struct, which must outlive them.
template <class Object>
std::string_view object_bytes(const Object& object) {
  static_assert(std::is_trivially_copyable_v<Object>);
  return {reinterpret_cast<const char*>(&object), sizeof object};
}

template <class Object>
std::string_view object_bytes(const Object&& temporary) = delete;

// Returns the number whose bytes begin at `bytes`, aligned or not.
template <class Number>
Number value_at(const char* bytes) {
  static_assert(std::is_trivially_copyable_v<Number>);
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

}  // namespace lmtrain
