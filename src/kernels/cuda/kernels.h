// The fused operators' kernels on an NVIDIA GPU: launchers that take raw pointers, sizes and a
// stream, no torch. Twins of kernels/cpu/kernels.h over whole tensors.
//
// Elements are fp32, bf16 or fp16; arithmetic and sums are fp32. Pointers are to memory of the
// current device, contiguous where nothing else is said, aligned to an element at least. A launcher
// queues its work on `call.stream` and returns; Error(kInternal) where the queueing fails. Sums
// have a fixed order and use no atomics: equal inputs give equal bits. The sources NAME.cu are
// compiled where there is an nvcc (LMTRAIN_CUDA); device/dispatch.h decides whether they are
// called.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cpu/kernels.h"

namespace lmtrain::cuda {

enum class ElementType { kFloat, kBf16, kHalf };

struct Call {
  ElementType type;
  void* stream;  // a cudaStream_t
};

// Whether the program has code for the current device's architecture.
bool serves_current_device();
// Its compute capability: 89 is 8.9.
int compute_capability();
// Its name; empty if CUDA does not say.
std::string device_name();

// h = x, or x + residual rounded where `residual` is not null, then written to `h`.
// y = h * rstd * w per row of `dim`; rstd is kept for the backward.
void rms_norm_forward(const Call& call, const void* x, const void* residual, const void* weight,
                      void* h, void* y, float* rstd, int64_t rows, int64_t dim, float eps);
// dx = the gradient of y through the norm, plus `dh` where that is not null; dw[dim] of elements.
// `partial`: scratch for fp32 [rms_norm_partials(rows), dim].
void rms_norm_backward(const Call& call, const void* dy, const void* dh, const void* h,
                       const void* weight, const float* rstd, void* dx, void* dw, float* partial,
                       int64_t rows, int64_t dim);
int64_t rms_norm_partials(int64_t rows);

struct RopeShape {
  int64_t batch, length, num_heads, num_kv_heads;
  int64_t half;        // of a head's size
  int64_t num_angles;  // rows of cos and sin [num_angles, half]: position i has row i % num_angles
};
// Heads of one kind; a head's own elements are adjacent.
struct HeadsView {
  void* data;
  int64_t batch_stride, head_stride, row_stride;
};
// From qkv [batch x length, (num_heads + 2 num_kv_heads) 2 half] to q, k and v: q and k rotated.
void qkv_rope_forward(const Call& call, const void* qkv, const float* cos, const float* sin,
                      const HeadsView& q, const HeadsView& k, const HeadsView& v,
                      const RopeShape& shape);
// Back, rotating the other way.
void qkv_rope_backward(const Call& call, const HeadsView& dq, const HeadsView& dk,
                       const HeadsView& dv, const float* cos, const float* sin, void* d_qkv,
                       const RopeShape& shape);

// y = silu(gate) * up for rows of [gate | up].
void swiglu_forward(const Call& call, const void* gate_up, void* y, int64_t rows, int64_t dim);
// Writes y again too, unless that is null.
void swiglu_backward(const Call& call, const void* dy, const void* gate_up, void* d_gate_up,
                     void* y, int64_t rows, int64_t dim);

// As CpuKernels::cross_entropy, but for the gradient's scale, which is read from the device; null
// where no gradient is wanted. A target that is not in the vocabulary gives loss NaN and gradient
// NaN.
void cross_entropy(const Call& call, void* logits, const int64_t* targets, float* losses,
                   int64_t rows, int64_t vocab, const double* grad_scale, float z_loss);
// x *= *factor; where that is 1, nothing is read or written but the factor.
void scale_by(const Call& call, void* x, int64_t count, const float* factor);

// d_weight[id] = the fp32 sum of dy's rows of that id; rows of other ids are left alone. `order` is
// where each of the ascending `sorted_ids` stood. `partial`: scratch for fp32
// [embedding_partials(count), dim].
void embedding_backward(const Call& call, const void* dy, const int64_t* sorted_ids,
                        const int64_t* order, void* d_weight, float* partial, int64_t count,
                        int64_t dim);
int64_t embedding_partials(int64_t count);

// sum (+)= grad.
void accumulate(const Call& call, const void* grad, float* sum, int64_t count, bool first);
// *result = the sum of squares in fp64. `partial`: scratch for kSumOfSquaresPartials.
void sum_of_squares(const Call& call, const float* x, double* partial, double* result,
                    int64_t count);
inline constexpr int64_t kSumOfSquaresPartials = 1024;

// fp8 (ops/fp8.h). amax[fp8_amax_parts(count)]: the largest |x| of each part, NaN for a NaN.
void fp8_amax(const Call& call, const void* x, float* amax, int64_t count);
int64_t fp8_amax_parts(int64_t count);
enum class Fp8Format { kE4M3, kE5M2 };
// x [rows, columns] times the format's largest number / the largest of `amax`, rounded to the
// nearest, as `by_rows` [padded_rows, columns] and `by_columns` [columns, padded_rows], of which
// one may be null; rows beyond x's are zeros, columns a multiple of 8, padded_rows of 4, the copies
// aligned to 8. *inverse_scale: what brings them back; not finite where `amax` is not, and then
// the copies are NaN and 0.
void fp8_cast(const Call& call, const void* x, const float* amax, int64_t num_parts,
              Fp8Format format, uint8_t* by_rows, uint8_t* by_columns, float* inverse_scale,
              int64_t rows, int64_t padded_rows, int64_t columns);
// Tensors whose largest |x| is below are scaled as if it were this, or the scale would overflow.
inline constexpr float kFp8LeastAmax = 0x1p-60F;

// The update rules; `call.type` is that of the working weights. The constants are in memory of the
// device, so that what is launched is the same in every update.
void adamw(const Call& call, float* master, float* exp_avg, float* exp_avg_sq, const float* grad,
           void* working, int64_t count, const AdamWConstants* constants);
void lion(const Call& call, float* master, float* exp_avg, const float* grad, void* working,
          int64_t count, const LionConstants* constants);
void ademamix(const Call& call, float* master, float* exp_avg, float* exp_avg_slow,
              float* exp_avg_sq, const float* grad, void* working, int64_t count,
              const AdEMAMixConstants* constants);

}  // namespace lmtrain::cuda
