// Computes attention on a GPU by libtorch's kernels: FlashAttention over segments of any lengths
// (Dao, 2307.08691). Also says which of libtorch's kernels takes whole rows, and whether cuDNN's
// may.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lmtrain {

// Returns whether flash_attention takes these tensors: bf16 or fp16 on a GPU of compute capability
// 8.0 or later, heads of a multiple of 8 elements, 256 at most.
bool has_flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// Computes `attention` of ops/operators.h, with its gradient: returns y_BHTE. `segments` is int32
// and on the GPU. The cost is the sum of the squares of the segments' lengths, and no mask is made.
// Requires has_flash_attention(q, k, v).
at::Tensor flash_attention(const at::Tensor& q_BHTE, const at::Tensor& k_BKTE,
                           const at::Tensor& v_BKTE, const at::Tensor& segments);

// These read and set whether attention of whole rows may use cuDNN's kernel. It is the fastest on a
// GPU of compute capability 9.0 or later, but prepares a plan for every new shape, in about a
// second, and refuses some shapes. The setting is of the process; no attention may run meanwhile.
bool cudnn_attention_allowed();
void allow_cudnn_attention(bool allowed);
// Forbids cuDNN's kernel while it lives, then restores the setting: for computations without
// gradient, where every length is new and would need a plan.
class WithoutCudnnAttention {
 public:
  WithoutCudnnAttention();
  ~WithoutCudnnAttention();
  WithoutCudnnAttention(const WithoutCudnnAttention&) = delete;
  WithoutCudnnAttention& operator=(const WithoutCudnnAttention&) = delete;

 private:
  bool allowed_before_;
};

// Returns, for the log, the kernel that scaled_dot_product_attention takes for whole rows of these
// sizes on a device: "cuDNN", "FlashAttention", "memory-efficient attention" or "plain matrices".
std::string attention_backend(const at::Device& device, at::ScalarType dtype, int64_t num_heads,
                              int64_t num_kv_heads, int64_t head_size, int64_t length);

}  // namespace lmtrain
