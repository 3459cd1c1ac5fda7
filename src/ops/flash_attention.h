// Attention on a GPU by what libtorch brings: FlashAttention over segments of any lengths (Dao,
// 2307.08691), and which of its kernels takes rows that are whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lmtrain {

// Whether flash_attention takes these: bf16 or fp16 on a GPU of compute capability 8.0 or later,
// heads of a multiple of 8 elements, 256 at most.
bool has_flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// As `attention` of ops/operators.h; the cost is the sum of the squares of the segments' lengths,
// and no mask is made. `segments` is on the GPU.
at::Tensor flash_attention(const at::Tensor& q_BHTE, const at::Tensor& k_BKTE,
                           const at::Tensor& v_BKTE, const at::Tensor& segments);

// Whether cuDNN's kernel may be taken for whole rows. It is the fastest on a GPU of compute
// capability 9.0 or later, and prepares a plan for every new shape, which takes about a second;
// some shapes it refuses. The answer is the process's; it is asked and changed while no attention
// is computed.
bool cudnn_attention_allowed();
void allow_cudnn_attention(bool allowed);
// It may not be taken while this lives: where no gradient is wanted, every length is new.
class WithoutCudnnAttention {
 public:
  WithoutCudnnAttention();
  ~WithoutCudnnAttention();
  WithoutCudnnAttention(const WithoutCudnnAttention&) = delete;
  WithoutCudnnAttention& operator=(const WithoutCudnnAttention&) = delete;

 private:
  bool allowed_before_;
};

// The kernel that scaled_dot_product_attention takes for whole rows of these sizes on a device, for
// the log: "cuDNN", "FlashAttention", "memory-efficient attention" or "plain matrices".
std::string attention_backend(const at::Device& device, at::ScalarType dtype, int64_t num_heads,
                              int64_t num_kv_heads, int64_t head_size, int64_t length);

}  // namespace lmtrain
