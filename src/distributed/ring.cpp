#include "distributed/ring.h"

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// This rank's elements in the range of the rank that is `steps` before it.
at::Tensor part_before(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                       int steps) {
  const auto count = static_cast<int>(ranges.size());
  return ranges[static_cast<size_t>((rank - steps + count) % count)].of(flat);
}

}  // namespace

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
