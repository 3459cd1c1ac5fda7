#include "distributed/tree_sum.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "distributed/ranges.h"

namespace lmtrain {
namespace {

int count_of(const std::vector<ElementRange>& ranges) {
  if (!std::has_single_bit(ranges.size())) {
    throw Error(ErrorKind::kInternal, str("a tree of ", ranges.size(), " ranks"));
  }
  return static_cast<int>(ranges.size());
}

// Returns the elements that a rank keeps in the round of `bit`: the smallest range that covers the
// ranges of all ranks that equal `rank` in the bits up to `bit`.
ElementRange kept_by(const std::vector<ElementRange>& ranges, int rank, int bit) {
  ElementRange all;
  for (int other = rank % (2 * bit); other < static_cast<int>(ranges.size()); other += 2 * bit) {
    const ElementRange& range = ranges[static_cast<size_t>(other)];
    if (range.size == 0) continue;
    if (all.size == 0) all = range;
    const int64_t end = std::max(all.end(), range.end());
    all.first = std::min(all.first, range.first);
    all.size = end - all.first;
  }
  return all;
}

// Returns the number of messages in a round: the same for all ranks, so that all make the same
// number of exchanges. Throws Error(kInternal), on all ranks alike, if a rank would add to elements
// that it gives away.
int64_t count_messages(const std::vector<ElementRange>& ranges, int bit, int64_t message) {
  int64_t longest = 1;
  for (int rank = 0; rank < 2 * bit; ++rank) {  // the others keep the same elements
    const ElementRange kept = kept_by(ranges, rank, bit);
    if (common(kept, kept_by(ranges, rank ^ bit, bit)).size > 0)
      throw Error(ErrorKind::kInternal, "the ranges of a sum overlap");
    longest = std::max(longest, kept.size);
  }
  return (longest + message - 1) / message;
}

// The elements of message i of a range.
ElementRange message_of(const ElementRange& range, int64_t i, int64_t message) {
  const int64_t before = std::min(i * message, range.size);
  return {range.first + before, std::min(message, range.size - before)};
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
    const ElementRange kept = kept_by(ranges, rank, bit);
    const ElementRange given = kept_by(ranges, rank ^ bit, bit);
    const int64_t messages = count_messages(ranges, bit, message);
    for (int64_t i = 0; i < messages; ++i) {
      const at::Tensor mine = message_of(kept, i, message).of(flat);
      if (!received.defined() || received.numel() < mine.numel())
        received = at::empty({mine.numel()}, flat.options());
      const at::Tensor theirs = received.narrow(0, 0, mine.numel());
      exchange(rank ^ bit, message_of(given, i, message).of(flat), theirs);
      mine.add_(theirs);  // a + b and b + a have the same bits
    }
  }
}

void tree_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const Exchange& exchange) {
  for (int bit = count_of(ranges) / 2; bit > 0; bit /= 2) {
    const int partner = rank ^ bit;
    exchange(partner, kept_by(ranges, rank, bit).of(flat), kept_by(ranges, partner, bit).of(flat));
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
