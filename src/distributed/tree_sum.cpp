#include "distributed/tree_sum.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

int count_of(const std::vector<ElementRange>& ranges) {
  if (!std::has_single_bit(ranges.size())) {
    throw Error(ErrorKind::kInternal, str("a tree of ", ranges.size(), " ranks"));
  }
  return static_cast<int>(ranges.size());
}

// Returns the smallest range that covers the ranges of all ranks that equal `rank` in the bits
// below `limit`, a power of two.
ElementRange cover(const std::vector<ElementRange>& ranges, int rank, int limit) {
  ElementRange all;
  for (int other = rank % limit; other < static_cast<int>(ranges.size()); other += limit) {
    const ElementRange& range = ranges[static_cast<size_t>(other)];
    if (range.size == 0) continue;
    if (all.size == 0) all = range;
    const int64_t end = std::max(all.end(), range.end());
    all.first = std::min(all.first, range.first);
    all.size = end - all.first;
  }
  return all;
}

// Holds the elements that a rank keeps in a round, and the elements that it gives to its partner.
struct Halves {
  ElementRange kept, given;

  // Both are cut into messages from the side where they may overlap: so a rank gives the elements
  // of the first message away before it adds to them.
  bool keeps_lower() const {
    return kept.first != given.first ? kept.first < given.first : kept.end() < given.end();
  }
  // The least size of messages with which only the two first messages have common elements.
  int64_t least_message() const {
    const int64_t in_both = common(kept, given).size;
    const ElementRange& lower = keeps_lower() ? kept : given;
    const ElementRange& higher = keeps_lower() ? given : kept;
    const bool one_holds_the_other = lower.first == higher.first || lower.end() > higher.end();
    return in_both > 0 && one_holds_the_other ? std::max(kept.size, given.size) : in_both;
  }
};

Halves halves_of(const std::vector<ElementRange>& ranges, int rank, int bit) {
  return {cover(ranges, rank, 2 * bit), cover(ranges, rank ^ bit, 2 * bit)};
}

// Says how a round is cut into messages: the same for all ranks, so that all make the same number
// of exchanges.
struct Cut {
  int64_t size = 0, messages = 1;  // size: elements of a message
};

Cut cut_round(const std::vector<ElementRange>& ranges, int bit, int64_t message) {
  // If all elements fit into one message, every rank has one message, whatever the pairs are.
  if (cover(ranges, /*rank=*/0, /*limit=*/1).size <= message) return {message, 1};
  Cut cut{message, 1};
  int64_t longest = 0;
  for (int rank = 0; rank < static_cast<int>(ranges.size()); ++rank) {
    const Halves halves = halves_of(ranges, rank, bit);
    cut.size = std::max(cut.size, halves.least_message());
    longest = std::max(longest, halves.kept.size);
  }
  cut.messages = std::max<int64_t>(1, (longest + cut.size - 1) / cut.size);
  return cut;
}

// The elements of message i of a range, counted from its beginning or from its end.
ElementRange message_of(const ElementRange& range, int64_t i, int64_t size, bool from_end) {
  const int64_t before = std::min(i * size, range.size);
  const int64_t taken = std::min(size, range.size - before);
  return {from_end ? range.end() - before - taken : range.first + before, taken};
}

// This rank's elements in the range of the rank that is `steps` before it.
at::Tensor part_before(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                       int steps) {
  const auto count = static_cast<int>(ranges.size());
  return ranges[static_cast<size_t>((rank - steps + count) % count)].of(flat);
}

}  // namespace

void tree_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const Exchange& exchange, int64_t message) {
  const int count = count_of(ranges);
  at::Tensor received;
  for (int bit = 1; bit < count; bit *= 2) {
    const Halves halves = halves_of(ranges, rank, bit);
    const Cut cut = cut_round(ranges, bit, message);
    for (int64_t i = 0; i < cut.messages; ++i) {
      const bool keeps_lower = halves.keeps_lower();
      const ElementRange kept = message_of(halves.kept, i, cut.size, /*from_end=*/keeps_lower);
      const ElementRange given = message_of(halves.given, i, cut.size, /*from_end=*/!keeps_lower);
      if (!received.defined() || received.numel() < kept.size)
        received = at::empty({kept.size}, flat.options());
      const at::Tensor theirs = received.narrow(0, 0, kept.size);
      exchange(rank ^ bit, given.of(flat), theirs);
      kept.of(flat).add_(theirs);  // a + b and b + a have the same bits
    }
  }
}

void tree_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const Exchange& exchange) {
  for (int bit = count_of(ranges) / 2; bit > 0; bit /= 2) {
    const int partner = rank ^ bit;
    exchange(partner, cover(ranges, rank, 2 * bit).of(flat),
             cover(ranges, partner, 2 * bit).of(flat));
  }
}

void ring_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const PassOn& pass_on) {
  const auto count = static_cast<int>(ranges.size());
  at::Tensor sum = part_before(flat, ranges, rank, 1).clone();
  for (int steps = 2; steps <= count; ++steps) {
    const at::Tensor mine = part_before(flat, ranges, rank, steps);
    const at::Tensor passed = at::empty_like(mine);
    pass_on(sum, passed);
    sum = passed.add_(mine);
  }
  part_before(flat, ranges, rank, 0).copy_(sum);
}

void ring_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const PassOn& pass_on) {
  for (int steps = 1; steps < static_cast<int>(ranges.size()); ++steps) {
    pass_on(part_before(flat, ranges, rank, steps - 1), part_before(flat, ranges, rank, steps));
  }
}

}  // namespace lmtrain
