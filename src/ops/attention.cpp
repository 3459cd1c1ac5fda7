#include "kernels/cpu/attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "ops/flash_attention.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

// Queries, keys and values, or their gradients: [B, heads, T, E].
struct SplitHeads {
  at::Tensor q, k, v;
};

// cos_PR and sin_PR of qkv_rope.
struct RotaryTables {
  at::Tensor cos, sin;
};

// How many queries share one packing of their keys, over all query heads of a key/value head:
// enough to make the packing cheap, few enough for the scratch, and in between few enough that
// every thread has several tasks.
constexpr int64_t kLeastQueries = 256;
constexpr int64_t kMostQueries = 2048;
constexpr int64_t kTasksOfThread = 16;

// How many queries of one query head a task has; whole blocks.
int64_t queries_at_once(const at::Tensor& q_BHTE, const at::Tensor& k_BKTE) {
  const auto blocks = [&](int64_t queries) {
    const int64_t of_head = queries * k_BKTE.size(1) / q_BHTE.size(1);
    return std::max<int64_t>(1, of_head / kAttentionBlock);
  };
  const int64_t tasks = kTasksOfThread * at::get_num_threads();
  const int64_t queries = q_BHTE.size(2) * k_BKTE.size(0) * k_BKTE.size(1) / tasks;
  return kAttentionBlock *
         std::clamp(queries / kAttentionBlock, blocks(kLeastQueries), blocks(kMostQueries));
}

// One key/value head in one segment, and some of its queries.
struct Work {
  int64_t batch, begin, length;
  int64_t kv_head;
  int64_t first, last;
};

// Calls run(task, next, scratch) for each Work, on all threads. `next` is the task that this thread
// likely takes next, or null.
template <class F, class G>
void share(const std::vector<Work>& all, int64_t scratch_floats, const F& task, const G& run) {
  WorkQueue shared(static_cast<int64_t>(all.size()));
  const int64_t threads = at::get_num_threads();
  shared.run(1, [&] {
    const at::Tensor scratch = at::detail::empty_cpu({scratch_floats}, at::kFloat);
    while (const Tasks taken = shared.take_one()) {
      const auto next = static_cast<size_t>(taken.begin + threads);
      const auto next_task = task(all[std::min(next, all.size() - 1)]);
      run(task(all[static_cast<size_t>(taken.begin)]), next < all.size() ? &next_task : nullptr,
          scratch.data_ptr<float>());
    }
  });
}

// The positions of each segment in its row, for each key/value head, with at most `queries` a
// task.
std::vector<Work> work_of(const std::optional<at::Tensor>& segments, const at::Tensor& k_BKTE,
                          int64_t queries) {
  std::vector<Work> all;
  const int64_t length = k_BKTE.size(2);
  const auto add = [&](int64_t begin, int64_t end) {
    for (int64_t head = 0; head < k_BKTE.size(1); ++head) {
      for (int64_t first = 0; first < end - begin; first += queries) {
        const int64_t last = std::min(end - begin, first + queries);
        all.push_back({begin / length, begin % length, end - begin, head, first, last});
      }
    }
  };
  if (segments) {
    const int32_t* begins = elements<int32_t>(*segments);
    for (int64_t i = 0; i + 1 < segments->numel(); ++i) add(begins[i], begins[i + 1]);
  } else {
    for (int64_t row = 0; row < k_BKTE.size(0); ++row) add(row * length, (row + 1) * length);
  }
  // The most expensive first, so that no thread is left with one at the end.
  std::stable_sort(all.begin(), all.end(),
                   [](const Work& a, const Work& b) { return a.last > b.last; });
  return all;
}

template <class T>
HeadVectors<T> vectors(const at::Tensor& x_BHTE, const Work& work, int64_t head) {
  auto* data = elements<std::remove_const_t<T>>(x_BHTE);
  return {data + work.batch * x_BHTE.stride(0) + head * x_BHTE.stride(1) +
              work.begin * x_BHTE.stride(2),
          x_BHTE.stride(2), x_BHTE.stride(1)};
}

// The row of a rotary table for a flattened position of the batch.
const float* angles_of(const at::Tensor& table_PR, int64_t position) {
  return elements<float>(table_PR) + position % table_PR.size(0) * table_PR.size(1);
}

// The fields of a task that forward and backward share.
template <class T>
AttentionTask<T> task_of(const Work& work, const SplitHeads& x, const RotaryTables& angles,
                         const at::Tensor& y, const at::Tensor& logsumexp_BHT) {
  AttentionTask<T> task = {};
  task.length = work.length;
  task.first = work.first;
  task.last = work.last;
  task.size = x.q.size(3);
  task.heads = x.q.size(1) / x.k.size(1);
  task.scale = 1.0F / std::sqrt(static_cast<float>(task.size));
  const int64_t position = work.batch * x.q.size(2) + work.begin;
  task.cos = angles_of(angles.cos, position);
  task.sin = angles_of(angles.sin, position);
  const int64_t head = work.kv_head * task.heads;
  task.q = vectors<const T>(x.q, work, head);
  task.k = vectors<const T>(x.k, work, work.kv_head);
  task.v = vectors<const T>(x.v, work, work.kv_head);
  task.y = vectors<T>(y, work, head);
  task.logsumexp_stride = logsumexp_BHT.stride(1);
  task.logsumexp = elements<float>(logsumexp_BHT) + work.batch * logsumexp_BHT.stride(0) +
                   head * task.logsumexp_stride + work.begin;
  return task;
}

// An empty logsumexp for y_BHTE: [B, H, T], fp32.
at::Tensor empty_logsumexp(const at::Tensor& y) {
  return at::empty({y.size(0), y.size(1), y.size(2)}, y.options().dtype(at::kFloat));
}

// Writes y_BHTE and logsumexp_BHT.
void attention_forward(const SplitHeads& x, const RotaryTables& angles,
                       const std::optional<at::Tensor>& segments, const at::Tensor& y,
                       const at::Tensor& logsumexp) {
  const int64_t group = x.q.size(1) / x.k.size(1);
  const int64_t queries = queries_at_once(x.q, x.k);
  on_cpu(y, [&]<class T>(T) {
    const CpuAttention<T>& kernels = cpu_attention<T>();
    const int64_t scratch =
        kernels.forward_scratch(std::min(queries, x.q.size(2)), x.q.size(3), group);
    share(
        work_of(segments, x.k, queries), scratch,
        [&](const Work& work) { return task_of<T>(work, x, angles, y, logsumexp); },
        kernels.forward);
  });
}

// Writes dx.
void attention_backward(const SplitHeads& x, const RotaryTables& angles,
                        const std::optional<at::Tensor>& segments, const at::Tensor& y,
                        const at::Tensor& logsumexp, const at::Tensor& dy, const SplitHeads& dx) {
  on_cpu(y, [&]<class T>(T) {
    const CpuAttention<T>& kernels = cpu_attention<T>();
    // A sum over queries is one task's, so that its order is the same whoever takes it.
    const std::vector<Work> all = work_of(segments, x.k, x.q.size(2));
    const int64_t longest = all.empty() ? 0 : all.front().length;
    share(
        all, kernels.backward_scratch(longest, x.q.size(3)),
        [&](const Work& work) {
          AttentionTask<T> task = task_of<T>(work, x, angles, y, logsumexp);
          task.dy = vectors<const T>(dy, work, work.kv_head * task.heads);
          task.dq = vectors<T>(dx.q, work, work.kv_head * task.heads);
          task.dk = vectors<T>(dx.k, work, work.kv_head);
          task.dv = vectors<T>(dx.v, work, work.kv_head);
          return task;
        },
        kernels.backward);
  });
}

// [B, heads, T, E], contiguous as [B, T, heads, E].
at::Tensor empty_heads(const at::Tensor& like_BHTE) {
  return at::empty({like_BHTE.size(0), like_BHTE.size(2), like_BHTE.size(1), like_BHTE.size(3)},
                   like_BHTE.options())
      .transpose(1, 2);
}

// The heads of x_BTC, C = (H + 2K)E, as views.
SplitHeads split_heads(const at::Tensor& x_BTC, int64_t num_heads, int64_t num_kv_heads) {
  const auto heads = x_BTC.unflatten(-1, {num_heads + 2 * num_kv_heads, -1}).transpose(1, 2);
  return {heads.narrow(1, 0, num_heads), heads.narrow(1, num_heads, num_kv_heads),
          heads.narrow(1, num_heads + num_kv_heads, num_kv_heads)};
}

class RopeAttentionFunction : public torch::autograd::Function<RopeAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& cos, const at::Tensor& sin, int64_t num_heads,
                            int64_t num_kv_heads, const std::optional<at::Tensor>& segments) {
    const at::Tensor qkv = input.contiguous();
    const SplitHeads x = split_heads(qkv, num_heads, num_kv_heads);
    const at::Tensor y = empty_heads(x.q), logsumexp = empty_logsumexp(y);
    attention_forward(x, {cos, sin}, segments, y, logsumexp);
    context->save_for_backward({qkv, cos, sin, y, logsumexp, segments.value_or(at::Tensor())});
    context->saved_data["heads"] = num_heads;
    context->saved_data["kv_heads"] = num_kv_heads;
    return y.transpose(1, 2).flatten(2);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const int64_t num_heads = context->saved_data["heads"].toInt();
    const int64_t num_kv_heads = context->saved_data["kv_heads"].toInt();
    const at::Tensor dy_BTHE = grads[0].contiguous().unflatten(-1, {num_heads, -1});
    at::Tensor d_qkv = at::empty_like(saved[0]);
    attention_backward(split_heads(saved[0], num_heads, num_kv_heads), {saved[1], saved[2]},
                       saved[5].defined() ? std::optional(saved[5]) : std::nullopt, saved[3],
                       saved[4], dy_BTHE.transpose(1, 2),
                       split_heads(d_qkv, num_heads, num_kv_heads));
    return {d_qkv, {}, {}, {}, {}, {}};
  }
};

// [B, 1, T, T]: whether position t attends to position s.
at::Tensor segment_mask(const at::Tensor& segments, int64_t batch, int64_t length) {
  const at::Tensor positions = at::arange(batch * length, segments.options());
  const at::Tensor owner =
      at::searchsorted(segments, positions, /*out_int32=*/false, /*right=*/true)
          .view({batch, length});
  return (owner.unsqueeze(2) == owner.unsqueeze(1)).tril().unsqueeze(1);
}

// Heads x_BKTE, each `times` times: [B, K times, T, E].
at::Tensor repeated(const at::Tensor& x, int64_t times) {
  return x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
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
  // libtorch's kernel for fp32 knows no groups of queries, and without one there would be plain
  // matrices [B, H, T, T].
  const int64_t group = q.size(1) / k.size(1);
  if (q.is_cuda() && q.scalar_type() == at::kFloat && group > 1) {
    return attention_reference(q, repeated(k, group), repeated(v, group), segments);
  }
  return attention_reference(q, k, v, segments);
}

at::Tensor rope_attention_reference(const at::Tensor& qkv, const at::Tensor& cos,
                                    const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                    const std::optional<at::Tensor>& segments) {
  const auto [q, k, v] = qkv_rope_reference(qkv, cos, sin, num_heads, num_kv_heads);
  return attention_reference(q, k, v, segments).transpose(1, 2).flatten(2);
}

at::Tensor rope_attention_dropout(const at::Tensor& qkv, const at::Tensor& cos,
                                  const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                  const std::optional<at::Tensor>& segments, const at::Tensor& keys,
                                  int64_t site, double p) {
  const auto [q, k, v] =
      (has_cuda_kernel(qkv) ? qkv_rope_in_place : qkv_rope)(qkv, cos, sin, num_heads, num_kv_heads);
  const int64_t group = num_heads / num_kv_heads, length = q.size(2);
  const at::Tensor attends =
      segments ? segment_mask(*segments, q.size(0), length)
               : at::ones({1, 1, length, length}, q.options().dtype(at::kBool)).tril();
  const at::Tensor scores =
      at::matmul(q / std::sqrt(static_cast<double>(q.size(3))), repeated(k, group).transpose(2, 3));
  const at::Tensor weights =
      scores.masked_fill(attends.logical_not(), -std::numeric_limits<double>::infinity())
          .softmax(-1);
  return at::matmul(dropout(weights, keys, site, p), repeated(v, group)).transpose(1, 2).flatten(2);
}

at::Tensor rope_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                          int64_t num_heads, int64_t num_kv_heads,
                          const std::optional<at::Tensor>& segments) {
  if (has_cpu_kernel(qkv)) {
    return RopeAttentionFunction::apply(qkv, cos.contiguous(), sin.contiguous(), num_heads,
                                        num_kv_heads, segments);
  }
  const auto [q, k, v] =
      (has_cuda_kernel(qkv) ? qkv_rope_in_place : qkv_rope)(qkv, cos, sin, num_heads, num_kv_heads);
  return attention(q, k, v, segments).transpose(1, 2).flatten(2);
}

}  // namespace lmtrain
