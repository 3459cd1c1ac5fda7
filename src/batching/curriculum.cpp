// Orders of lengths, see curriculum.h; docs/batching.md has the weights in full.
#include "batching/curriculum.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/random.h"

namespace lmtrain {
namespace {

// Products of two counts.
using Wide = unsigned __int128;

constexpr int64_t kBlock = 256;

// round(count · part / whole), halves up.
int64_t rounded_share(int64_t count, int64_t part, int64_t whole) {
  const Wide doubled = Wide{2} * static_cast<uint64_t>(count) * static_cast<uint64_t>(part);
  const auto divisor = static_cast<uint64_t>(whole);
  return static_cast<int64_t>((doubled + divisor) / (Wide{2} * divisor));
}

// Fisher & Yates. `begin`: where the slice begins in the order; no two slices share random bits.
void shuffle_slice(std::span<uint8_t> slice, uint64_t key, size_t begin, const Poll& poll) {
  for (size_t i = slice.size(); i > 1; --i) {
    poll_at(begin + i, poll);
    const uint64_t bits = random_bits(key, RandomStream::kCurriculum, begin + i - 1);
    std::swap(slice[i - 1], slice[static_cast<size_t>((Wide{bits} * i) >> 64)]);
  }
}

// Appends counts[i] times i, short lengths first, and shuffles them if there is a key.
void append_slice(const std::vector<int64_t>& counts, std::optional<uint64_t> key,
                  std::vector<uint8_t>& order, const Poll& poll) {
  const size_t begin = order.size();
  for (size_t i = 0; i < counts.size(); ++i) {
    order.insert(order.end(), static_cast<size_t>(counts[i]), static_cast<uint8_t>(i));
  }
  if (key) shuffle_slice(std::span(order).subspan(begin), *key, begin, poll);
}

}  // namespace

std::vector<int64_t> split_in_proportion(int64_t total, const std::vector<int64_t>& weights) {
  const auto sum =
      static_cast<uint64_t>(std::accumulate(weights.begin(), weights.end(), int64_t{0}));
  std::vector<int64_t> parts;
  std::vector<std::pair<uint64_t, size_t>> remainders;
  int64_t missing = total;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Wide share = Wide{static_cast<uint64_t>(total)} * static_cast<uint64_t>(weights[i]);
    parts.push_back(static_cast<int64_t>(share / sum));
    remainders.emplace_back(static_cast<uint64_t>(share % sum), i);
    missing -= parts.back();
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < static_cast<size_t>(missing); ++i) ++parts[remainders[i].second];
  return parts;
}

std::vector<std::vector<int64_t>> sub_cycle_weights(Growth growth, size_t num_lengths) {
  std::vector<std::vector<int64_t>> weights(num_lengths, std::vector<int64_t>(num_lengths));
  for (size_t length = 0; length < num_lengths; ++length) {
    for (size_t sub_cycle = 0; sub_cycle < num_lengths; ++sub_cycle) {
      // A length's rank rises to the top in the sub-cycle of its own number; the ranks left over
      // fall from there.
      const size_t below = sub_cycle <= length ? length - sub_cycle : sub_cycle;
      const size_t rank = num_lengths - 1 - below;
      weights[length][sub_cycle] =
          growth == Growth::kP2 ? int64_t{1} << rank : static_cast<int64_t>(rank) + 1;
    }
  }
  return weights;
}

std::vector<int64_t> cycle_counts(const std::vector<int64_t>& counts, int64_t cycle,
                                  int64_t num_cycles) {
  std::vector<int64_t> here;
  here.reserve(counts.size());
  for (const int64_t count : counts) {
    here.push_back(rounded_share(count, cycle + 1, num_cycles) -
                   rounded_share(count, cycle, num_cycles));
  }
  return here;
}

std::vector<uint8_t> mix_lengths(const std::vector<int64_t>& counts, std::optional<uint64_t> key,
                                 const Poll& poll) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  std::vector<uint8_t> order;
  order.reserve(static_cast<size_t>(total));
  if (key) {
    append_slice(counts, key, order, poll);
    return order;
  }
  // Each position goes to the length that is furthest behind its share. The shortfalls always add
  // up to one batch, so the largest is positive and no length gets more than its count.
  std::vector<int64_t> shortfall(counts.size(), 0);  // in units of 1/total batch
  for (int64_t position = 0; position < total; ++position) {
    poll_at(static_cast<size_t>(position), poll);
    for (size_t i = 0; i < counts.size(); ++i) shortfall[i] += counts[i];
    const auto furthest = std::max_element(shortfall.begin(), shortfall.end());
    *furthest -= total;
    order.push_back(static_cast<uint8_t>(furthest - shortfall.begin()));
  }
  return order;
}

std::vector<uint8_t> grow_lengths(const std::vector<int64_t>& counts, Growth growth,
                                  int64_t num_cycles, std::optional<uint64_t> key,
                                  const Poll& poll) {
  const size_t n = counts.size();
  const auto weights = sub_cycle_weights(growth, n);
  std::vector<uint8_t> order;
  order.reserve(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  for (int64_t cycle = 0; cycle < num_cycles; ++cycle) {
    const std::vector<int64_t> in_cycle = cycle_counts(counts, cycle, num_cycles);
    std::vector<int64_t> weight_before(n, 0);
    for (size_t sub_cycle = 0; sub_cycle < n; ++sub_cycle) {
      std::vector<int64_t> here(n);
      for (size_t i = 0; i < n; ++i) {
        const int64_t sum = std::accumulate(weights[i].begin(), weights[i].end(), int64_t{0});
        const int64_t until = weight_before[i] + weights[i][sub_cycle];
        here[i] = rounded_share(in_cycle[i], until, sum) -
                  rounded_share(in_cycle[i], weight_before[i], sum);
        weight_before[i] = until;
      }
      append_slice(here, key, order, poll);
    }
  }
  return order;
}

LengthSequence::LengthSequence(std::vector<uint8_t> order, size_t num_lengths, const Poll& poll)
    : order_(std::move(order)), num_lengths_(num_lengths) {
  std::vector<int64_t> counts(num_lengths, 0);
  for (size_t i = 0; i <= order_.size(); ++i) {
    poll_at(i, poll);
    if (i % kBlock == 0) counts_.insert(counts_.end(), counts.begin(), counts.end());
    if (i < order_.size()) ++counts[order_[i]];
  }
}

int64_t LengthSequence::count_before(int64_t position, size_t index) const {
  const int64_t block = position / kBlock;
  const auto first = order_.begin() + block * kBlock;
  return counts_[static_cast<size_t>(block) * num_lengths_ + index] +
         std::count(first, order_.begin() + position, static_cast<uint8_t>(index));
}

}  // namespace lmtrain
