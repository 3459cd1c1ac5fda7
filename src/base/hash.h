// Checksums and fingerprints. Values are part of file formats and of the order of data: they never
// change.
//
// crc32c uses the Castagnoli polynomial 0x1EDC6F41 (reflected 0x82F63B78), as RFC 3720 appendix B.4
// does; it checks the integrity of files. hash128 is MurmurHash3_x64_128 (Austin Appleby) with seed
// 0, of one string. Hasher hashes a sequence of fields by hash128 and the mixing of SplitMix64; it
// makes the fingerprints of content, splits and orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

// Continues a checksum: `crc` is the CRC-32C of the bytes so far (0 for none), and `size` more
// bytes are at `data`. Returns the CRC-32C of all.
uint32_t crc32c(uint32_t crc, const void* data, size_t size);
// Returns the CRC-32C of two texts joined. `first` and `second` are their CRCs, and `second_size`
// is the size of the second in bytes.
uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_size);

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
  std::string hex() const;  // 32 digits in lower case, `high` first
};

Hash128 hash128(std::string_view bytes);
uint64_t hash64(std::string_view bytes);  // hash128(bytes).low

// Mixes 64 bits by the finaliser of SplitMix64. It is a bijection.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
// Returns a hash of the pair (a, b). The pair (b, a) has another hash.
constexpr uint64_t hash_combine(uint64_t a, uint64_t b) { return mix64(a ^ mix64(b)); }

// Hashes a sequence of fields, in their order. A text is hashed with its length, so that ("ab","c")
// and ("a","bc") differ; an integer is hashed as its 64 bits alone, and a Hash128 as two integers,
// `low` first.
class Hasher {
 public:
  Hasher() = default;
  // Continues after the fields whose digest() is `digest`.
  explicit Hasher(const Hash128& digest) : low_(digest.low), high_(digest.high) {}
  Hasher& add(std::string_view field);
  Hasher& add(uint64_t value);
  Hasher& add(const Hash128& hash) { return add(hash.low).add(hash.high); }
  // Adds a text of `size` bytes whose hash128() is `hash`, as add() of the text does.
  Hasher& add_hashed(size_t size, const Hash128& hash);
  Hash128 digest() const { return {low_, high_}; }

 private:
  uint64_t low_ = 0x6C6D747261696E00ULL;
  uint64_t high_ = 0;
};

// Returns the 64-bit hash that identifies a text for the split, the sample and the order of
// held-out text. `hash` is the text's hash128(). No seed enters, and the function never changes.
// (hash64("") is 0, which would always come first.)
inline uint64_t text_hash(const Hash128& hash) { return mix64(hash.low); }

}  // namespace lmtrain
