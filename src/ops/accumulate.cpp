#include "ops/accumulate.h"

#include <bit>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {
namespace {

size_t halves_that_wait(int64_t part) {
  return static_cast<size_t>(std::countr_one(static_cast<uint64_t>(part)));
}

}  // namespace

void accumulate(const at::Tensor& part, const at::Tensor& sum, bool first) {
  if (!has_kernel(part)) {
    first ? sum.copy_(part.reshape(-1)) : sum.add_(part.reshape(-1));
    return;
  }
  const at::Tensor flat = part.contiguous();
  on_cpu(flat, [&]<class T>(T) {
    parallel_for_queued(flat.numel(), grain_rows(1), [&](int64_t begin, int64_t end) {
      cpu_kernels<T>().accumulate(elements<T>(flat) + begin, elements<float>(sum) + begin,
                                  end - begin, first);
    });
  });
  on_cuda(flat, [&](const auto& call) {
    cuda::accumulate(call, flat.data_ptr(), elements<float>(sum), flat.numel(), first);
  });
}

void PartTree::complete(int64_t part, const at::Tensor& sum, int64_t begin, int64_t size) const {
  for (size_t half = 0; half < halves_that_wait(part); ++half)
    sum.narrow(0, begin, size).add_(waiting_[half].narrow(0, begin, size));
}

void PartTree::keep(int64_t part, const at::Tensor& sum) {
  const size_t level = halves_that_wait(part);
  if (level == waiting_.size()) waiting_.push_back(at::empty_like(sum));
  waiting_[level].copy_(sum);
}

}  // namespace lmtrain
