// These are the kernels of the fused operators and of the optimizers on an NVIDIA GPU: launchers
// that take raw pointers, sizes and a stream, no torch. They compute the functions of
// kernels/cpu/kernels.h for whole tensors.
//
// Elements are fp32, bf16 or fp16; arithmetic and sums are fp32. Pointers are to memory of the
// current device, contiguous where nothing else is said, aligned to an element at least. Counts of
// elements, rows and positions may be 0. A launcher queues its work on `call.stream` and returns;
// it throws Error(kInternal) where the queueing fails. Sums have a fixed order and use no atomics:
// equal inputs give equal bits. The sources NAME.cu are compiled where there is an nvcc
// (LMTRAIN_CUDA); device/dispatch.h decides whether they are called.
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

// Returns whether the program has code for the current device's architecture.
bool serves_current_device();
// Returns its compute capability: 89 is 8.9. Throws Error(kInternal) where CUDA does not say.
int compute_capability();
// Returns its name; empty if CUDA does not say.
std::string device_name();

// Writes y = h * rstd * weight per row of `dim`, and rstd[rows] for the backward. With a `residual`
// (null: none), h = x + residual, rounded, is written to `h`; else h is x, and the pointer `h` is
// not used and may be null.
void rms_norm_forward(const Call& call, const void* x, const void* residual, const void* weight,
                      void* h, void* y, float* rstd, int64_t rows, int64_t dim, float eps);
// Writes dx, the gradient of y through the norm, with `dh` added where that is not null, and dw, of
// call.type, [dim], which it overwrites. `partial` is scratch for fp32 [rms_norm_partials(rows),
// dim]. Rows of up to 4096 elements of bf16 or fp16, and 2048 of fp32, are read once, longer ones
// several times.
void rms_norm_backward(const Call& call, const void* dy, const void* dh, const void* h,
                       const void* weight, const float* rstd, void* dx, void* dw, float* partial,
                       int64_t rows, int64_t dim);
int64_t rms_norm_partials(int64_t rows);

struct RopeShape {
  int64_t batch, length, num_heads, num_kv_heads;
  int64_t half;        // half of a head's size
  int64_t num_angles;  // rows of cos and sin [num_angles, half]: position i has row i % num_angles
};
// A HeadsView is the heads of one kind: q, k or v. Strides are in elements; the elements of one
// head are adjacent.
struct HeadsView {
  void* data;
  int64_t batch_stride, head_stride, row_stride;
};
// Rotates q and k in qkv [batch x length, (num_heads + 2 num_kv_heads) 2 half], where they are.
void qkv_rope_forward(const Call& call, void* qkv, const float* cos, const float* sin,
                      const RopeShape& shape);
// Copies the gradients of q, k and v to d_qkv; rotates the gradients of q and k the other way.
void qkv_rope_backward(const Call& call, const HeadsView& dq, const HeadsView& dk,
                       const HeadsView& dv, const float* cos, const float* sin, void* d_qkv,
                       const RopeShape& shape);

// Writes y[rows, dim] = silu(gate) * up for rows of [gate | up], 2 dim wide.
void swiglu_forward(const Call& call, const void* gate_up, void* y, int64_t rows, int64_t dim);
// Writes d_gate_up and, unless it is null, y again.
void swiglu_backward(const Call& call, const void* dy, const void* gate_up, void* d_gate_up,
                     void* y, int64_t rows, int64_t dim);

// Computes CpuKernels::cross_entropy for each row, and writes losses[rows]. The gradient's scale is
// read from the device; it is null where no gradient is wanted. A target at or above `vocab` gives
// loss NaN and gradient NaN.
void cross_entropy(const Call& call, void* logits, const int64_t* targets, float* losses,
                   int64_t rows, int64_t vocab, const double* grad_scale, float z_loss);
// Multiplies x by *factor; where that is 1, nothing is read or written but the factor.
void scale_by(const Call& call, void* x, int64_t count, const float* factor);

// Writes to d_weight[id] the fp32 sum of dy's rows of that id, rounded; rows of other ids are left
// alone. `order` holds where each of the ascending `sorted_ids`, which must be in the vocabulary,
// stood. `partial` is scratch for fp32 [embedding_partials(count), dim].
void embedding_backward(const Call& call, const void* dy, const int64_t* sorted_ids,
                        const int64_t* order, void* d_weight, float* partial, int64_t count,
                        int64_t dim);
int64_t embedding_partials(int64_t count);

// Adds `grad`, of call.type, to `sum`, or overwrites `sum` by it if `first`.
void accumulate(const Call& call, const void* grad, float* sum, int64_t count, bool first);
// Writes to *result the sum of squares in fp64; call.type is not read. `partial` is scratch for
// kSumOfSquaresPartials doubles.
void sum_of_squares(const Call& call, const float* x, double* partial, double* result,
                    int64_t count);
inline constexpr int64_t kSumOfSquaresPartials = 1024;

// For fp8 (ops/fp8.h): writes amax[fp8_amax_parts(count)], the largest |x| of each part, NaN for a
// part with a NaN.
void fp8_amax(const Call& call, const void* x, float* amax, int64_t count);
int64_t fp8_amax_parts(int64_t count);
enum class Fp8Format { kE4M3, kE5M2 };
// Casts x [rows, columns], times the format's largest number / the largest of `amax` and rounded to
// the nearest, to `by_rows` [padded_rows, columns] and `by_columns` [columns, padded_rows], of
// which one may be null. Rows beyond x's are zeros. `columns` must be a multiple of 8,
// `padded_rows` of 4, and the copies aligned to 8 bytes. *inverse_scale is the factor that brings x
// back; where `amax` is not finite it is not finite either, and then the copies are NaN and 0.
void fp8_cast(const Call& call, const void* x, const float* amax, int64_t num_parts,
              Fp8Format format, uint8_t* by_rows, uint8_t* by_columns, float* inverse_scale,
              int64_t rows, int64_t padded_rows, int64_t columns);
// A tensor whose largest |x| is below this is scaled as if it were this, or the scale would
// overflow.
inline constexpr float kFp8LeastAmax = 0x1p-60F;

// These are the update rules of kernels/cpu/kernels.h. `call.type` is the type of the working
// weights; with kFloat `working` may be `master` itself. The constants are in memory of the device,
// so that what is launched is the same in every update.
void adamw(const Call& call, float* master, float* exp_avg, float* exp_avg_sq, const float* grad,
           void* working, int64_t count, const AdamWConstants* constants);
void lion(const Call& call, float* master, float* exp_avg, const float* grad, void* working,
          int64_t count, const LionConstants* constants);
void ademamix(const Call& call, float* master, float* exp_avg, float* exp_avg_slow,
              float* exp_avg_sq, const float* grad, void* working, int64_t count,
              const AdEMAMixConstants* constants);

// Graphs: the work queued on a stream is recorded instead of done, and can then be launched any
// number of times.
//
// A capture must be ended by the thread that began it; other threads may queue on the stream
// meanwhile. `stream` is a cudaStream_t, and not the default one while it is captured. These
// functions throw Error(kInternal) where the runtime refuses, except abandon_capture() and
// destroy_graph(), which throw nothing.
void begin_capture(void* stream);
// Ends a capture and returns the graph, which destroy_graph() must free. Throws Error(kInternal)
// also where something was queued or asked that a graph cannot hold; no capture is under way any
// more then.
void* end_capture(void* stream);
// Ends a capture and drops its graph.
void abandon_capture(void* stream);

void launch_graph(void* graph, void* stream);
// Frees a graph without waiting; a launch that is still running ends first.
void destroy_graph(void* graph);

}  // namespace lmtrain::cuda
