#include "optim/clip.h"

#include <cmath>

#include "base/error.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {
namespace {

double sum_of_squares_on_gpu(const at::Tensor& grad) {
  const at::Tensor sum = at::empty({}, grad.options().dtype(at::kDouble));
  const at::Tensor partial = at::empty({cuda::kSumOfSquaresPartials}, sum.options());
  on_cuda(grad, [&](const auto& call) {
    cuda::sum_of_squares(call, elements<float>(grad), elements<double>(partial),
                         elements<double>(sum), grad.numel());
  });
  return sum.item<double>();
}

// Whole blocks are rows of one matrix, and a shorter one is a matrix of its own.
std::vector<double> block_sums_by_aten(const at::Tensor& grad, int64_t first_block,
                                       int64_t last_block) {
  const int64_t begin = std::min(first_block * kNormBlock, grad.numel());
  const int64_t end = std::min(last_block * kNormBlock, grad.numel());
  const int64_t rest = (end - begin) % kNormBlock;
  const auto norms_of = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, {1}, /*keepdim=*/false, at::kDouble);
  };
  const at::Tensor whole = grad.narrow(0, begin, end - begin - rest).view({-1, kNormBlock});
  at::Tensor norms = norms_of(whole);
  if (rest > 0) norms = at::cat({norms, norms_of(grad.narrow(0, end - rest, rest).unsqueeze(0))});
  const at::Tensor sums = norms.square().cpu();
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

}  // namespace

double gradient_norm(const at::Tensor& grad) {
  if (has_cuda_kernel(grad)) return std::sqrt(sum_of_squares_on_gpu(grad));
  if (!grad.is_cpu()) return at::linalg_vector_norm(grad, 2, {}, false, at::kDouble).item<double>();
  const std::vector<double> blocks =
      block_sums_of_squares(grad, 0, (grad.numel() + kNormBlock - 1) / kNormBlock);
  return std::sqrt(std::accumulate(blocks.begin(), blocks.end(), 0.0));
}

std::vector<double> block_sums_of_squares(const at::Tensor& grad, int64_t first_block,
                                          int64_t last_block) {
  if (!grad.is_cpu()) return block_sums_by_aten(grad, first_block, last_block);
  std::vector<double> sums(static_cast<size_t>(last_block - first_block));
  parallel_for_queued(static_cast<int64_t>(sums.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = (first_block + i) * kNormBlock;
      sums[static_cast<size_t>(i)] = cpu_kernels<float>().sum_of_squares(
          elements<float>(grad) + begin, std::min(kNormBlock, grad.numel() - begin));
    }
  });
  return sums;
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
