// These functions order batches of different lengths. A length is given by its index in ascending
// order; its value does not matter here.
//
//   mix_lengths   all lengths in proportion throughout (constant, natural)
//   grow_lengths  cycles; each cycle begins with short lengths and ends with long ones
//                 (grow_linear, grow_p2: Pouransari et al. 2405.13226, as OLMo-core does it)
//
// With a key the order is shuffled, without one it is regular. The functions are pure. A `poll` is
// called now and then, and may end them by an exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/stop.h"

namespace lmtrain {

enum class Growth { kLinear, kP2 };

// Divides `total` into integers in proportion to `weights`, by largest remainder; ties go to the
// first. They add up to `total`. No argument may be negative, and one weight must be above 0.
std::vector<int64_t> split_in_proportion(int64_t total, const std::vector<int64_t>& weights);

// A cycle has one sub-cycle for each length. Returns weights[length][sub-cycle]. In a cycle, the
// batches of a length are divided among the sub-cycles in proportion to its weights.
std::vector<std::vector<int64_t>> sub_cycle_weights(Growth growth, size_t num_lengths);

// Length i has counts[i] batches in all. Returns for each length the number of its batches in cycle
// `cycle`, 0 <= cycle < num_cycles.
std::vector<int64_t> cycle_counts(const std::vector<int64_t>& counts, int64_t cycle,
                                  int64_t num_cycles);

// Both return the length index of every batch, in batch order. Length i has counts[i] batches. At
// most 256 lengths are allowed.
std::vector<uint8_t> mix_lengths(const std::vector<int64_t>& counts, std::optional<uint64_t> key,
                                 const Poll& poll = throw_if_stopped);
std::vector<uint8_t> grow_lengths(const std::vector<int64_t>& counts, Growth growth,
                                  int64_t num_cycles, std::optional<uint64_t> key,
                                  const Poll& poll = throw_if_stopped);

// A LengthSequence holds an order of lengths and answers in constant time how many batches of a
// length come before a position.
class LengthSequence {
 public:
  LengthSequence(std::vector<uint8_t> order, size_t num_lengths,
                 const Poll& poll = throw_if_stopped);

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  size_t at(int64_t position) const { return order_[static_cast<size_t>(position)]; }
  // Returns how many entries of [0, position) are `index`. Requires position <= size().
  int64_t count_before(int64_t position, size_t index) const;

 private:
  std::vector<uint8_t> order_;
  size_t num_lengths_;
  std::vector<int64_t> counts_;  // [block][length]: batches before each block of kBlock batches
};

}  // namespace lmtrain
