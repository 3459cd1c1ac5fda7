#include "base/hash.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

#include "base/bytes.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lmtrain {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

uint32_t crc32c_portable(uint32_t crc, const unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kCrcTable[(crc ^ bytes[i]) & 0xFFU];
  return crc;
}

// Returns the product of two polynomials modulo the CRC's polynomial. Bit 31 is the coefficient of
// x^0, as in the CRC itself, so a factor x is a shift to the right.
constexpr uint32_t crc_product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1U << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return product;
}

#if defined(__x86_64__)
// An instruction takes three cycles, and one begins in each cycle: so three parts are summed at
// once.
constexpr size_t kCrcPart = 4096;
static_assert(std::has_single_bit(kCrcPart));
constexpr uint32_t kCrcPartOfZeros = [] {  // x^(8 kCrcPart): a factor of it appends as many zeros
  uint32_t power = 1U << 23;               // x^8
  for (size_t size = 1; size < kCrcPart; size *= 2) power = crc_product(power, power);
  return power;
}();

__attribute__((target("sse4.2"))) inline uint64_t add_word(uint64_t crc, const unsigned char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return _mm_crc32_u64(crc, word);
}

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(uint32_t crc, const unsigned char* bytes,
                                                        size_t size) {
  for (; size >= 3 * kCrcPart; size -= 3 * kCrcPart, bytes += 3 * kCrcPart) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < kCrcPart; i += 8) {
      first = add_word(first, bytes + i);
      second = add_word(second, bytes + kCrcPart + i);
      third = add_word(third, bytes + 2 * kCrcPart + i);
    }
    crc =
        crc_product(static_cast<uint32_t>(first), kCrcPartOfZeros) ^ static_cast<uint32_t>(second);
    crc = crc_product(crc, kCrcPartOfZeros) ^ static_cast<uint32_t>(third);
  }
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, bytes += 8) wide = add_word(wide, bytes);
  auto narrow = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++bytes) narrow = _mm_crc32_u8(narrow, *bytes);
  return narrow;
}
#endif

constexpr uint64_t finalize(uint64_t k) {
  k = (k ^ (k >> 33)) * 0xFF51AFD7ED558CCDULL;
  k = (k ^ (k >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return k ^ (k >> 33);
}

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) return ~crc32c_sse42(~crc, bytes, size);
#endif
  return ~crc32c_portable(~crc, bytes, size);
}

uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_size) {
  // Each byte that follows multiplies the CRC of what stands before it by x^8.
  uint32_t power = 1U << 23;  // x^8, x^16, x^32, ...
  for (; second_size > 0; second_size >>= 1, power = crc_product(power, power)) {
    if ((second_size & 1U) != 0) first = crc_product(first, power);
  }
  return first ^ second;
}

std::string Hash128::hex() const {
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx",
                static_cast<unsigned long long>(high), static_cast<unsigned long long>(low));
  return digits.data();
}

Hash128 hash128(std::string_view bytes) {
  // MurmurHash3_x64_128 (Austin Appleby, public domain algorithm), seed 0.
  constexpr uint64_t kC1 = 0x87C37B91114253D5ULL;
  constexpr uint64_t kC2 = 0x4CF5AD432745937FULL;
  uint64_t h1 = 0;
  uint64_t h2 = 0;
  const size_t num_blocks = bytes.size() / 16;
  const auto scramble1 = [](uint64_t k) { return std::rotl(k * kC1, 31) * kC2; };
  const auto scramble2 = [](uint64_t k) { return std::rotl(k * kC2, 33) * kC1; };
  for (size_t i = 0; i < num_blocks; ++i) {
    const char* block = bytes.data() + 16 * i;
    h1 ^= scramble1(value_at<uint64_t>(block));
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52DCE729;
    h2 ^= scramble2(value_at<uint64_t>(block + 8));
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495AB5;
  }
  std::array<char, 16> tail{};
  const size_t tail_size = bytes.size() % 16;
  if (tail_size > 0) std::memcpy(tail.data(), bytes.data() + 16 * num_blocks, tail_size);
  if (tail_size > 8) h2 ^= scramble2(value_at<uint64_t>(tail.data() + 8));
  if (tail_size > 0) h1 ^= scramble1(value_at<uint64_t>(tail.data()));
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = finalize(h1);
  h2 = finalize(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

uint64_t hash64(std::string_view bytes) { return hash128(bytes).low; }

Hasher& Hasher::add(std::string_view field) { return add_hashed(field.size(), hash128(field)); }

Hasher& Hasher::add(uint64_t value) {
  low_ = hash_combine(low_, value);
  high_ = hash_combine(high_ ^ 0x5851F42D4C957F2DULL, value + low_);
  return *this;
}

Hasher& Hasher::add_hashed(size_t size, const Hash128& hash) { return add(size).add(hash); }

}  // namespace lmtrain
