#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

// ATen adds in one pass over memory. Its sum over positions is ours, since ATen's follows the
// threads.
class AddBiasFunction : public torch::autograd::Function<AddBiasFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x,
                            const at::Tensor& bias) {
    return x + bias;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& grads) {
    const at::Tensor dy = grads[0].contiguous();
    const int64_t width = dy.size(-1);
    const int64_t positions = dy.numel() / width;
    const int64_t per_block = (positions + kGradBlocks - 1) / kGradBlocks;
    const at::Tensor partial = at::zeros({kGradBlocks, width}, at::kFloat);
    on_cpu(dy, [&]<class T>(T) {
      const auto accumulate = cpu_kernels<T>().accumulate;
      parallel_for_queued(kGradBlocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first * per_block; i < std::min(positions, last * per_block); ++i) {
          accumulate(elements<T>(dy) + i * width, elements<float>(partial) + i / per_block * width,
                     width, /*first=*/false);
        }
      });
    });
    return {dy, partial.sum(0).to(dy.scalar_type())};
  }
};

}  // namespace

at::Tensor add_bias_reference(const at::Tensor& x, const at::Tensor& bias) { return x + bias; }

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  // On a GPU ATen adds, and sums over positions in fp32.
  return has_cpu_kernel(x) ? AddBiasFunction::apply(x, bias) : add_bias_reference(x, bias);
}

}  // namespace lmtrain
