#include "processes/tree_sum.h"

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

// The smallest range that covers those of the ranks that agree with `rank` in the bits below
// `limit`, a power of two.
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

}  // namespace

void tree_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const Exchange& exchange) {
  const int count = count_of(ranges);
  at::Tensor received;
  for (int bit = 1; bit < count; bit *= 2) {
    const int partner = rank ^ bit;
    const ElementRange kept = cover(ranges, rank, 2 * bit);
    const ElementRange given = cover(ranges, partner, 2 * bit);
    if (!received.defined()) received = at::empty({kept.size}, flat.options());  // the most of all
    const at::Tensor theirs = received.narrow(0, 0, kept.size);
    exchange(partner, given.of(flat), theirs);
    kept.of(flat).add_(theirs);  // a + b and b + a have the same bits
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

}  // namespace lmtrain
