// A ShuffleKey gives the keys by which the order of data is shuffled: random bits that depend on
// the fingerprint, data.seed and the use, or nothing when data.shuffle is false.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/hash.h"
#include "base/random.h"

namespace lmtrain {

class ShuffleKey {
 public:
  ShuffleKey(const std::string& fingerprint, int64_t data_seed, bool shuffle)
      : base_(hash_combine(hash64(fingerprint), static_cast<uint64_t>(data_seed))),
        shuffle_(shuffle) {}

  bool shuffles() const { return shuffle_; }

  // Returns the key of one use. The numbers `a` and `b` distinguish the uses of a stream, such as
  // length and epoch.
  std::optional<uint64_t> operator()(RandomStream stream, int64_t a, int64_t b) const {
    if (!shuffle_) return std::nullopt;
    return random_bits(base_, stream,
                       hash_combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }

  // Returns the ShuffleKey of one of several groups of sources. For group 0 it returns this one.
  ShuffleKey of_group(size_t group) const {
    ShuffleKey key = *this;
    if (group > 0) key.base_ = hash_combine(base_, group);
    return key;
  }

 private:
  uint64_t base_;
  bool shuffle_;
};

}  // namespace lmtrain
