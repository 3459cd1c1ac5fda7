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

// Neighbouring blocks of equal size become the rows of one matrix, since a call for each block
// would be slow. A matrix is small, since ATen copies it to fp64.
std::vector<double> sums_by_aten(const at::Tensor& flat, const std::vector<ElementRange>& blocks) {
  constexpr int64_t kMostElements = int64_t{1} << 24;
  std::vector<at::Tensor> norms;
  for (size_t i = 0; i < blocks.size();) {
    const ElementRange& first = blocks[i];
    int64_t rows = 1;
    for (++i; i < blocks.size() && blocks[i].size == first.size &&
              (rows + 1) * first.size <= kMostElements &&
              blocks[i].first == first.first + rows * first.size;
         ++i)
      ++rows;
    const at::Tensor matrix = flat.narrow(0, first.first, rows * first.size).view({rows, -1});
    norms.push_back(at::linalg_vector_norm(matrix, 2, {1}, /*keepdim=*/false, at::kDouble));
  }
  if (norms.empty()) return {};
  const at::Tensor sums = at::cat(norms).square().cpu();
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

void append_blocks(int64_t first, int64_t size, std::vector<ElementRange>& blocks) {
  for (int64_t done = 0; done < size; done += kNormBlock)
    blocks.push_back({first + done, std::min(kNormBlock, size - done)});
}

double norm_of(const at::Tensor& flat, const std::vector<ElementRange>& blocks) {
  const std::vector<double> sums = sums_of_squares(flat, blocks);
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

}  // namespace

std::vector<ElementRange> norm_blocks(const ParameterLayout& layout) {
  std::vector<ElementRange> blocks;
  for (const ParameterSpec& spec : layout.parameters())
    append_blocks(spec.offset, spec.numel(), blocks);
  return blocks;
}

std::vector<double> sums_of_squares(const at::Tensor& flat,
                                    const std::vector<ElementRange>& blocks) {
  if (!flat.is_cpu()) return sums_by_aten(flat, blocks);
  std::vector<double> sums(blocks.size());
  parallel_for_queued(static_cast<int64_t>(sums.size()), 1, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      sums[i] = cpu_kernels<float>().sum_of_squares(elements<float>(flat) + blocks[i].first,
                                                    blocks[i].size);
    }
  });
  return sums;
}

double gradient_norm(const at::Tensor& grad, const ParameterLayout& layout) {
  if (has_cuda_kernel(grad)) return std::sqrt(sum_of_squares_on_gpu(grad));
  return norm_of(grad, norm_blocks(layout));
}

double l2_norm(const at::Tensor& values) {
  std::vector<ElementRange> blocks;
  append_blocks(0, values.numel(), blocks);
  return norm_of(values, blocks);
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
