// Random numbers are counter-based: a value is a pure function of (seed, stream, index), so there
// is no generator state to save, forget or share between threads. Each use has a stream of its own,
// so that equal seeds and indices of two uses give unrelated numbers. The numbers of the streams
// never change: weights and orders of data depend on them.
//
// Permutation is a keyed bijection of [0, size): a four-round Feistel network on the next even
// number of bits with cycle walking (Black & Rogaway, "Ciphers with Arbitrary Finite Domains",
// 2002). It takes O(1) memory, and any index is found in O(1).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "base/hash.h"

namespace lmtrain {

enum class RandomStream : uint64_t {
  kInit = 1,        // initial weights
  kCut = 2,         // lengths of the sequences that a document is cut into
  kOrder = 3,       // order of rows, and of documents in a stream
  kCurriculum = 4,  // order of the lengths of batches
  kSample = 5,      // tokens of generated text
  // 6 is taken: no other use may have it.
  kBench = 7,      // input of benchmarks
  kMixture = 8,    // order of the sources among the rows
  kDropout = 9,    // what falls out of activations
  kBootstrap = 10  // weights and noise of a forecast's replicates
};

// Returns 64 random bits.
constexpr uint64_t random_bits(uint64_t seed, RandomStream stream, uint64_t index) {
  return hash_combine(hash_combine(seed, static_cast<uint64_t>(stream)), index);
}

// Returns a number that is uniform in [0, 1), with 53 random bits.
constexpr double random_uniform(uint64_t seed, RandomStream stream, uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1.0p-53;
}

// Returns a standard normal number (Box & Muller 1958). It uses the bits of indices 2 * index and
// 2 * index + 1.
inline double random_normal(uint64_t seed, RandomStream stream, uint64_t index) {
  constexpr double kTwoPi = 6.283185307179586476925;
  const double radius = std::sqrt(-2.0 * std::log1p(-random_uniform(seed, stream, 2 * index)));
  return radius * std::cos(kTwoPi * random_uniform(seed, stream, 2 * index + 1));
}

class Permutation {
 public:
  // Each `key` gives another permutation of [0, size). Size 0 is allowed: there is no index then.
  Permutation(uint64_t size, uint64_t key) : size_(size), key_(key) {
    const auto bits = static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1));
    half_bits_ = (bits + 1) / 2;
    mask_ = (uint64_t{1} << half_bits_) - 1;
  }

  uint64_t size() const { return size_; }

  // Returns the number in [0, size()) that `index` is mapped to. Requires index < size().
  uint64_t operator()(uint64_t index) const {
    do {
      index = encrypt(index);
    } while (index >= size_);
    return index;
  }

 private:
  uint64_t encrypt(uint64_t x) const {
    uint64_t left = x >> half_bits_;
    uint64_t right = x & mask_;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (hash_combine(key_ + round, right) & mask_);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t size_;
  uint64_t key_;
  unsigned half_bits_;
  uint64_t mask_;
};

// Returns the seed that is `steps` after `seed`. After the largest comes 0, since no seed is
// negative.
inline int64_t seed_after(int64_t seed, int64_t steps) {
  return static_cast<int64_t>((static_cast<uint64_t>(seed) + static_cast<uint64_t>(steps)) &
                              static_cast<uint64_t>(INT64_MAX));
}

// Returns a name that nobody else has, for runs, attempts and messages between processes. Draws 128
// bits from the random device of the system; gives 32 hexadecimal digits.
inline std::string random_id() {
  std::random_device random;
  const auto draw = [&] { return uint64_t{random()} << 32 | random(); };
  const uint64_t low = draw();
  return Hash128{low, draw()}.hex();
}

}  // namespace lmtrain
