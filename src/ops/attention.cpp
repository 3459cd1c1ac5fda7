#include "ops/dispatch.h"
#include "ops/flash_attention.h"
#include "ops/flat_positions.h"
#include "ops/operators.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

// Shorter segments are too little work to share among threads, so several are computed at a time;
// and ATen's kernel takes less time over them in fp32 than in bf16, conversions included.
constexpr int64_t kShort = 256;

struct Segment {
  int64_t begin;
  int64_t length;
};

// A view of one segment of x_NHE, or of x_NH: x_1HLE, x_1HL.
at::Tensor part(const at::Tensor& x, const Segment& segment) {
  return x.narrow(0, segment.begin, segment.length).transpose(0, 1).unsqueeze(0);
}

// Calls f(segment, dtype to compute in) for every segment. Which thread takes which changes no bit:
// no two write to the same place.
template <class F>
void for_each_segment(const at::Tensor& segments, at::ScalarType dtype, const F& f) {
  const int32_t* place = segments.data_ptr<int32_t>();
  std::vector<Segment> shorts;
  for (int64_t i = 0; i + 1 < segments.numel(); ++i) {
    const Segment segment = {place[i], place[i + 1] - place[i]};
    segment.length < kShort ? shorts.push_back(segment) : f(segment, dtype);
  }
  const auto count = static_cast<int64_t>(shorts.size());
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(shorts[static_cast<size_t>(i)], at::kFloat);
  });
}

// ATen's CPU flash attention over each segment by itself, so the cost is the sum of the squares of
// their lengths.
class SegmentAttention : public torch::autograd::Function<SegmentAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_BHTE,
                            const at::Tensor& k_BKTE, const at::Tensor& v_BKTE,
                            const at::Tensor& segments) {
    const at::Tensor q = flat_positions(q_BHTE);
    const at::Tensor k = flat_positions(k_BKTE);
    const at::Tensor v = flat_positions(v_BKTE);
    const at::Tensor y = at::empty_like(q);
    const at::Tensor logsumexp = at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat));
    for_each_segment(segments, q.scalar_type(), [&](const Segment& at, at::ScalarType dtype) {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;  // the threads begin without
      const auto [part_y, part_logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
          part(q, at).to(dtype), part(k, at).to(dtype), part(v, at).to(dtype), /*dropout_p=*/0.0,
          /*is_causal=*/true);
      part(y, at).copy_(part_y);
      part(logsumexp, at).copy_(part_logsumexp);
    });
    context->save_for_backward({q, k, v, y, logsumexp, segments});
    return heads_first(y, q_BHTE.size(0));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    const at::Tensor& y = saved[3];
    const at::Tensor& logsumexp = saved[4];
    const at::Tensor dy = flat_positions(grads[0]);
    const at::Tensor dq = at::empty_like(q);
    const at::Tensor dk = at::empty_like(k);
    const at::Tensor dv = at::empty_like(v);
    for_each_segment(saved[5], q.scalar_type(), [&](const Segment& at, at::ScalarType dtype) {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      const auto [part_dq, part_dk, part_dv] =
          at::_scaled_dot_product_flash_attention_for_cpu_backward(
              part(dy, at).to(dtype), part(q, at).to(dtype), part(k, at).to(dtype),
              part(v, at).to(dtype), part(y, at).to(dtype), part(logsumexp, at),
              /*dropout_p=*/0.0, /*is_causal=*/true);
      part(dq, at).copy_(part_dq);
      part(dk, at).copy_(part_dk);
      part(dv, at).copy_(part_dv);
    });
    const int64_t batch = grads[0].size(0);
    return {heads_first(dq, batch), heads_first(dk, batch), heads_first(dv, batch), at::Tensor()};
  }
};

// [B, 1, T, T]: whether place t attends to place s.
at::Tensor segment_mask(const at::Tensor& segments, int64_t batch, int64_t length) {
  const at::Tensor places = at::arange(batch * length, segments.options());
  const at::Tensor owner =
      at::searchsorted(segments, places, /*out_int32=*/false, /*right=*/true).view({batch, length});
  return (owner.unsqueeze(2) == owner.unsqueeze(1)).tril().unsqueeze(1);
}

}  // namespace

at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::optional<at::Tensor>& segments) {
  std::optional<at::Tensor> mask;
  if (segments) mask = segment_mask(*segments, q.size(0), q.size(2));
  return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0,
                                          /*is_causal=*/!segments, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/q.size(1) != k.size(1));
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& segments) {
  if (segments && has_flash_attention(q, k, v)) return flash_attention(q, k, v, *segments);
  if (!segments || !has_cpu_kernel(q)) return attention_reference(q, k, v, segments);
  return SegmentAttention::apply(q, k, v, *segments);
}

}  // namespace lmtrain
