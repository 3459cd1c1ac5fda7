#include "optim/clip.h"

#include <cmath>

#include "base/error.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {
namespace {

constexpr int64_t kBlock = 1 << 16;

double sum_of_squares_on_gpu(const at::Tensor& grad) {
  const at::Tensor sum = at::empty({}, grad.options().dtype(at::kDouble));
  const at::Tensor partial = at::empty({cuda::kSumOfSquaresPartials}, sum.options());
  on_cuda(grad, [&](const auto& call) {
    cuda::sum_of_squares(call, elements<float>(grad), elements<double>(partial),
                         elements<double>(sum), grad.numel());
  });
  return sum.item<double>();
}

}  // namespace

double gradient_norm(const at::Tensor& grad) {
  if (has_cuda_kernel(grad)) return std::sqrt(sum_of_squares_on_gpu(grad));
  if (!grad.is_cpu()) return at::linalg_vector_norm(grad, 2, {}, false, at::kDouble).item<double>();
  const int64_t size = grad.numel();
  std::vector<double> blocks(static_cast<size_t>((size + kBlock - 1) / kBlock));
  parallel_for_queued(static_cast<int64_t>(blocks.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kBlock;
      blocks[static_cast<size_t>(block)] = cpu_kernels<float>().sum_of_squares(
          elements<float>(grad) + begin, std::min(kBlock, size - begin));
    }
  });
  return std::sqrt(std::accumulate(blocks.begin(), blocks.end(), 0.0));
}

double clip_gradient(const ClipConfig& config, const at::Tensor& grad, double norm) {
  switch (config.type) {
    case ClipType::kNorm:
      return std::min(1.0, config.max / (norm + 1e-6));
    case ClipType::kValue:
      grad.clamp_(-config.max, config.max);
      return 1.0;
    case ClipType::kNone:
      return 1.0;
  }
  throw Error(ErrorKind::kInternal, "clip.type is one without a rule");
}

}  // namespace lmtrain
