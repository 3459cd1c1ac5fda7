#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

// Where the heads lie in one position of qkv: queries, then keys, then values.
struct HeadLayout {
  int64_t queries, keys, size;
  int64_t normed() const { return queries + keys; }
  int64_t width() const { return (queries + 2 * keys) * size; }
  int64_t values_bytes(const at::Tensor& qkv) const {
    return keys * size * static_cast<int64_t>(qkv.element_size());
  }
};

class QkNormFunction : public torch::autograd::Function<QkNormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& input_q_weight, const at::Tensor& input_k_weight,
                            int64_t num_heads, int64_t num_kv_heads, double eps) {
    const at::Tensor qkv = input.contiguous();
    const at::Tensor q_weight = input_q_weight.contiguous(), k_weight = input_k_weight.contiguous();
    const HeadLayout heads{num_heads, num_kv_heads, q_weight.numel()};
    const int64_t positions = qkv.numel() / heads.width();
    const at::Tensor y = at::empty_like(qkv);
    const at::Tensor rstd = at::empty({positions, heads.normed()}, qkv.options().dtype(at::kFloat));
    on_cpu(qkv, [&]<class T>(T) {
      const auto norm = cpu_kernels<T>().rms_norm_forward;
      const int64_t keys = heads.queries * heads.size, values = heads.normed() * heads.size;
      parallel_for_queued(positions, grain_rows(heads.width()), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* from = elements<T>(qkv) + i * heads.width();
          T* to = elements<T>(y) + i * heads.width();
          float* scale = elements<float>(rstd) + i * heads.normed();
          norm(from, nullptr, elements<T>(q_weight), nullptr, to, scale, heads.queries, heads.size,
               static_cast<float>(eps));
          norm(from + keys, nullptr, elements<T>(k_weight), nullptr, to + keys,
               scale + heads.queries, heads.keys, heads.size, static_cast<float>(eps));
          std::memcpy(to + values, from + values, static_cast<size_t>(heads.values_bytes(qkv)));
        }
      });
    });
    context->save_for_backward({qkv, q_weight, k_weight, rstd});
    context->saved_data["heads"] = num_heads;
    context->saved_data["kv_heads"] = num_kv_heads;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &q_weight = saved[1], &k_weight = saved[2], &rstd = saved[3];
    const HeadLayout heads{context->saved_data["heads"].toInt(),
                           context->saved_data["kv_heads"].toInt(), q_weight.numel()};
    const int64_t positions = qkv.numel() / heads.width();
    const at::Tensor dy = grads[0].contiguous();
    const at::Tensor dx = at::empty_like(qkv);
    const at::Tensor partial = at::zeros({kGradBlocks, 2, heads.size}, at::kFloat);
    on_cpu(qkv, [&]<class T>(T) {
      const auto norm = cpu_kernels<T>().rms_norm_backward;
      const int64_t keys = heads.queries * heads.size, values = heads.normed() * heads.size;
      const int64_t per_block = (positions + kGradBlocks - 1) / kGradBlocks;
      parallel_for_queued(kGradBlocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first * per_block; i < std::min(positions, last * per_block); ++i) {
          float* dw = elements<float>(partial) + i / per_block * 2 * heads.size;
          const int64_t at = i * heads.width();
          const T *g = elements<T>(dy) + at, *x = elements<T>(qkv) + at;
          const float* scale = elements<float>(rstd) + i * heads.normed();
          T* to = elements<T>(dx) + at;
          norm(g, nullptr, x, elements<T>(q_weight), scale, to, dw, heads.queries, heads.size);
          norm(g + keys, nullptr, x + keys, elements<T>(k_weight), scale + heads.queries, to + keys,
               dw + heads.size, heads.keys, heads.size);
          std::memcpy(to + values, g + values, static_cast<size_t>(heads.values_bytes(qkv)));
        }
      });
    });
    const at::Tensor dw = partial.sum(0).to(q_weight.scalar_type());
    return {dx, dw[0], dw[1], at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Norms by `norm`, (x, weight) to its RMSNorm over the last dimension.
template <class Norm>
at::Tensor composed(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                    int64_t num_heads, int64_t num_kv_heads, const Norm& norm) {
  const at::Tensor heads = qkv.unflatten(-1, {num_heads + 2 * num_kv_heads, q_weight.numel()});
  const auto parts = heads.split_with_sizes({num_heads, num_kv_heads, num_kv_heads}, -2);
  return at::cat({norm(parts[0], q_weight), norm(parts[1], k_weight), parts[2]}, -2).flatten(-2);
}

}  // namespace

at::Tensor qk_norm_reference(const at::Tensor& qkv, const at::Tensor& q_weight,
                             const at::Tensor& k_weight, int64_t num_heads, int64_t num_kv_heads,
                             double eps) {
  return composed(qkv, q_weight, k_weight, num_heads, num_kv_heads,
                  [&](const at::Tensor& x, const at::Tensor& weight) {
                    return std::get<1>(add_rms_norm_reference(x, std::nullopt, weight, eps));
                  });
}

at::Tensor qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   int64_t num_heads, int64_t num_kv_heads, double eps) {
  if (has_cpu_kernel(qkv))
    return QkNormFunction::apply(qkv, q_weight, k_weight, num_heads, num_kv_heads, eps);
  // On a GPU the kernel of the norm reads and writes each kind of heads by itself.
  return composed(qkv, q_weight, k_weight, num_heads, num_kv_heads,
                  [&](const at::Tensor& x, const at::Tensor& weight) {
                    return std::get<1>(add_rms_norm(x, std::nullopt, weight, eps));
                  });
}

}  // namespace lmtrain
