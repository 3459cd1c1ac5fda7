// The kernels of the fused operators and of the optimizers on an NVIDIA GPU: launchers that take
// raw pointers, sizes and a stream, no torch. They compute the functions of kernels/cpu/kernels.h
// for whole tensors.
//
// Elements are fp32, bf16 or fp16; arithmetic and sums are fp32. Pointers are to memory of the
// current device, aligned to an element, contiguous except in a HeadsView. Counts of elements, rows
// and positions may be 0. A launcher queues its work on `call.stream` and returns; it throws
// Error(kInternal) if CUDA refuses. Sums have a fixed order: equal inputs give equal bits. The
// sources NAME.cu need nvcc (LMTRAIN_CUDA); device/dispatch.h decides whether they are called.
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
// Returns its compute capability: 89 is 8.9. Throws Error(kInternal) if CUDA does not know it.
int compute_capability();
// Returns its name; empty if CUDA does not know it.
std::string device_name();

// Writes y = h * rstd * weight per row of `dim`, and rstd[rows] for the backward. With a `residual`
// (null: none), writes h = x + residual, rounded, to `h`. Without one, h is x, and the pointer `h`
// is not used and may be null.
void rms_norm_forward(const Call& call, const void* x, const void* residual, const void* weight,
                      void* h, void* y, float* rstd, int64_t rows, int64_t dim, float eps);
// Writes dx, the gradient of y through the norm, plus `dh` (null: none), and overwrites dw[dim], of
// call.type. `partial` is scratch for fp32 [rms_norm_partials(rows), dim].
void rms_norm_backward(const Call& call, const void* dy, const void* dh, const void* h,
                       const void* weight, const float* rstd, void* dx, void* dw, float* partial,
                       int64_t rows, int64_t dim);
int64_t rms_norm_partials(int64_t rows);

struct RopeShape {
  int64_t batch, length, num_heads, num_kv_heads;
  int64_t half;        // half of a head's size
  int64_t num_angles;  // rows of cos and sin [num_angles, half]: position i has row i % num_angles
};
// The heads of one kind: q, k or v. Strides are in elements; the elements of a head are contiguous.
struct HeadsView {
  void* data;
  int64_t batch_stride, head_stride, row_stride;
};
// Rotates q and k in place, in qkv [batch x length, (num_heads + 2 num_kv_heads) 2 half].
void qkv_rope_forward(const Call& call, void* qkv, const float* cos, const float* sin,
                      const RopeShape& shape);
// Copies the gradients of q, k and v to d_qkv; rotates the gradients of q and k the other way.
void qkv_rope_backward(const Call& call, const HeadsView& dq, const HeadsView& dk,
                       const HeadsView& dv, const float* cos, const float* sin, void* d_qkv,
                       const RopeShape& shape);

// Writes y[rows, dim] = silu(gate) * up for rows of [gate | up], 2 dim wide. Raises the
// kSwigluAmaxParts numbers of `amax` (null: not wanted), which are 0 at first, so that the largest
// of them is the largest |x| of y; it is NaN for a NaN.
void swiglu_forward(const Call& call, const void* gate_up, void* y, float* amax, int64_t rows,
                    int64_t dim);
// Writes d_gate_up and, unless `y` is null, y again. `amax` belongs to d_gate_up.
void swiglu_backward(const Call& call, const void* dy, const void* gate_up, void* d_gate_up,
                     void* y, float* amax, int64_t rows, int64_t dim);
inline constexpr int64_t kSwigluAmaxParts = 64;

// Computes CpuKernels::cross_entropy for each row, and writes losses[rows]. `grad_scale` is in
// memory of the device. Null means that no gradient is wanted; 0 gives a gradient of 0, unlike on a
// CPU. A target at or above `vocab` gives loss NaN and gradient NaN.
void cross_entropy(const Call& call, void* logits, const int64_t* targets, float* losses,
                   int64_t rows, int64_t vocab, const double* grad_scale, float z_loss);
// Multiplies x by *factor, in memory of the device; if that is 1, does not touch x.
void scale_by(const Call& call, void* x, int64_t count, const float* factor);

// Writes to row `id` of d_weight, for each id in `sorted_ids`, the fp32 sum of the id's rows of dy,
// rounded; does not touch other rows. sorted_ids[count] ascends and is in the vocabulary;
// sorted_ids[i] is the id of row order[i] of dy. `partial` is scratch for fp32
// [embedding_partials(count), dim].
void embedding_backward(const Call& call, const void* dy, const int32_t* sorted_ids,
                        const int64_t* order, void* d_weight, float* partial, int64_t count,
                        int64_t dim);
int64_t embedding_partials(int64_t count);

// Adds `grad`, of call.type, to `sum`, or overwrites `sum` by it if `first`.
void accumulate(const Call& call, const void* grad, float* sum, int64_t count, bool first);
// Writes the sum of squares in fp64 to *result; does not read call.type. `partial` is scratch for
// kSumOfSquaresPartials doubles.
void sum_of_squares(const Call& call, const float* x, double* partial, double* result,
                    int64_t count);
inline constexpr int64_t kSumOfSquaresPartials = 1024;

// For fp8 (ops/fp8.h): writes amax[fp8_amax_parts(count)], the largest |x| of each part of x; NaN
// for a part with a NaN.
void fp8_amax(const Call& call, const void* x, float* amax, int64_t count);
int64_t fp8_amax_parts(int64_t count);
enum class Fp8Format { kE4M3, kE5M2 };
// Casts x [rows, columns] times a scale to `by_rows` [padded_rows, columns] and `by_columns`
// [columns, padded_rows]; one of them may be null. The scale is the format's largest number / the
// largest of amax[num_parts], and *inverse_scale its inverse. Rows beyond `rows` are zeros.
// `columns` must be a multiple of 8, `padded_rows` of 4, and the copies aligned to 8 bytes. If
// `amax` is not finite, *inverse_scale is not either, and the copies hold NaN and 0.
void fp8_cast(const Call& call, const void* x, const float* amax, int64_t num_parts,
              Fp8Format format, uint8_t* by_rows, uint8_t* by_columns, float* inverse_scale,
              int64_t rows, int64_t padded_rows, int64_t columns);
// A largest |x| below this counts as this, since the scale would overflow.
inline constexpr float kFp8LeastAmax = 0x1p-60F;

// The update rules of kernels/cpu/kernels.h. `call.type` is the type of the working weights; with
// kFloat `working` may be `master` itself. The constants are in memory of the device, so that a
// captured graph can be launched for every update.
void adamw(const Call& call, float* master, float* exp_avg, float* exp_avg_sq, const float* grad,
           void* working, int64_t count, const AdamWConstants* constants);
void lion(const Call& call, float* master, float* exp_avg, const float* grad, void* working,
          int64_t count, const LionConstants* constants);
void ademamix(const Call& call, float* master, float* exp_avg, float* exp_avg_slow,
              float* exp_avg_sq, const float* grad, void* working, int64_t count,
              const AdEMAMixConstants* constants);

// Graphs: a capture records the work queued on a stream instead of doing it. The graph can then be
// launched any number of times.
//
// The thread that began a capture must end it; other threads may queue on the stream meanwhile.
// `stream` is a cudaStream_t; the default stream cannot be captured. These functions throw
// Error(kInternal) if CUDA refuses; abandon_capture() and destroy_graph() throw nothing.
void begin_capture(void* stream);
// Ends a capture and returns the graph, which destroy_graph() must free. Throws Error(kInternal)
// also if a graph cannot hold the work; the capture has ended then too.
void* end_capture(void* stream);
// Ends a capture and drops its graph.
void abandon_capture(void* stream);

void launch_graph(void* graph, void* stream);
// Frees a graph without waiting; a launch that still runs goes on to its end.
void destroy_graph(void* graph);

// Memory and addresses of the current device, apart from each other. Sizes and addresses are
// multiples of page_bytes(). These functions throw Error(kMemory) if the GPU has no more memory,
// Error(kConfig) if the driver lacks them, Error(kInternal) if it refuses.
int64_t page_bytes();
// Returns addresses without memory.
void* reserve_addresses(int64_t bytes);
// Frees addresses at which nothing is mapped.
void free_addresses(void* address, int64_t bytes);
// Returns memory without an address, which destroy_pages() must free.
uint64_t create_pages(int64_t bytes);
// Frees memory once it is mapped nowhere.
void destroy_pages(uint64_t pages) noexcept;
// Gives reserved addresses all `bytes` of the memory. The same memory may be mapped at several
// addresses: a kernel must not use it by two of them.
void map_pages(void* address, uint64_t pages, int64_t bytes);
// Makes addresses readable and writable. Memory must be mapped at each of them.
void allow_access(void* address, int64_t bytes);
// Undoes map_pages(), for its address and size. The GPU must have done its work there.
void unmap_pages(void* address, int64_t bytes);

}  // namespace lmtrain::cuda
