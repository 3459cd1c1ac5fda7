#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

// dy's rows summed by id: sorted, so that those of one id are neighbours. A sort of int32 takes
// half the passes of one of int64.
at::Tensor segmented_sum(const at::Tensor& dy, const at::Tensor& ids, int64_t vocab) {
  const int64_t dim = dy.size(-1);
  at::Tensor d_weight = at::zeros({vocab, dim}, dy.options());
  on_cuda(dy, [&](const auto& call) {
    const auto [sorted, order] =
        at::sort(ids.to(at::kInt), /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const at::Tensor partial =
        at::empty({cuda::embedding_partials(ids.numel()), dim}, dy.options().dtype(at::kFloat));
    cuda::embedding_backward(call, dy.data_ptr(), elements<int32_t>(sorted),
                             elements<int64_t>(order), d_weight.data_ptr(),
                             elements<float>(partial), ids.numel(), dim);
  });
  return d_weight;
}

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& ids,
                            const at::Tensor& weight) {
    context->save_for_backward({ids});
    context->saved_data["vocab"] = weight.size(0);
    return at::embedding(weight, ids);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const at::Tensor ids = context->get_saved_variables()[0];
    const int64_t vocab = context->saved_data["vocab"].toInt();
    const at::Tensor dy = grads[0].contiguous();
    if (has_cuda_kernel(dy)) return {at::Tensor(), segmented_sum(dy, ids.flatten(), vocab)};
    const at::ScalarType accurate = dy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor d_weight =
        at::embedding_dense_backward(dy.to(accurate), ids, vocab, /*padding_idx=*/-1,
                                     /*scale_grad_by_freq=*/false);
    return {at::Tensor(), d_weight.to(dy.scalar_type())};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight) {
  return EmbeddingFunction::apply(ids, weight);
}

}  // namespace lmtrain
