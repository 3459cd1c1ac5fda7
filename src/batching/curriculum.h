// In which order batches of different lengths come. Lengths are known by their index (ascending);
// how long they are does not matter here.
//
//   mix_lengths   all lengths in proportion throughout (constant, natural)
//   grow_lengths  cycles, each of which begins with short lengths and ends with long ones
//                 (grow_linear, grow_p2: Pouransari et al. 2405.13226, as OLMo-core does it)
//
// A key shuffles; without one the order is regular. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lmtrain {

enum class Growth { kLinear, kP2 };

// Whole parts of `total` in proportion to `weights`, by largest remainder; ties go to the first.
// They add up to `total`.
std::vector<int64_t> split_in_proportion(int64_t total, const std::vector<int64_t>& weights);

// weights[length][sub-cycle]: the parts of a length's batches in a cycle that fall into each of its
// sub-cycles.
std::vector<std::vector<int64_t>> sub_cycle_weights(Growth growth, size_t num_lengths);

// How many of counts[i] batches of length i cycle `cycle` of [0, `num_cycles`) has; over all cycles
// they add up.
std::vector<int64_t> cycle_counts(const std::vector<int64_t>& counts, int64_t cycle,
                                  int64_t num_cycles);

// The index of the length of every batch, in the order in which the batches come. Length i has
// counts[i] batches. At most 256 lengths.
std::vector<uint8_t> mix_lengths(const std::vector<int64_t>& counts, std::optional<uint64_t> key);
std::vector<uint8_t> grow_lengths(const std::vector<int64_t>& counts, Growth growth,
                                  int64_t num_cycles, std::optional<uint64_t> key);

// An order of lengths with O(1) answers to "how many of this length came before".
class LengthSequence {
 public:
  LengthSequence(std::vector<uint8_t> order, size_t num_lengths);

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  size_t at(int64_t position) const { return order_[static_cast<size_t>(position)]; }
  // How many entries of [0, position) are `index`; position <= size().
  int64_t count_before(int64_t position, size_t index) const;

 private:
  std::vector<uint8_t> order_;
  size_t num_lengths_;
  std::vector<int64_t> counts_;  // [block][length], before each block of kBlock
};

}  // namespace lmtrain
