// Where a run computes and in which precision: what `auto` means on this machine, and why.
//
// libtorch_cuda.so is loaded at run time, from beside libtorch_cpu.so, only where an NVIDIA driver
// is present; the same program therefore serves machines with and without a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace lmtrain {

// "auto" | "cpu" | "cuda" | "cuda:N" as the config has it. Error(kConfig) when the device asked for
// is not there, saying why. Loads the CUDA library if needed.
at::Device resolve_device(const std::string& name);

// The number formats that a run computes in.
struct Precision {
  at::ScalarType dtype;  // of the working weights and activations
  bool fp8 = false;      // the operands of products with a layer's matrices (ops/fp8.h)
};
// "auto" | "fp32" | "bf16" | "fp16" | "fp8", which is bf16 but for those products. auto: bf16 on a
// GPU that has it, and on a CPU with bf16 instructions (avx512_bf16 or amx_bf16), else fp32.
// Error(kConfig) for bf16 on a processor that lacks them, and for fp8 but on a GPU of compute
// capability 8.9 or later that our kernels serve.
Precision resolve_precision(const std::string& name, const at::Device& device);
std::string precision_name(const Precision& precision);  // "fp32", "bf16", "fp16", "fp8"

// For logs and reports: "AMD EPYC 9B14, 2 threads, avx512_bf16 kernels" or "NVIDIA H200".
std::string device_description(const at::Device& device, int num_threads);
// Dense matmul FLOP/s of the device in this dtype by its data sheet, where known (for MFU, which in
// fp8 too is against bf16: a part of the products are in it).
std::optional<double> known_peak_flops(const at::Device& device, at::ScalarType dtype);
// One line for --version: libtorch and CUDA versions.
std::string library_versions();

// A tensor on the host, uninitialised, to be filled and sent to `device` without waiting for it
// (non_blocking): page-locked where that is a GPU. It may be let go at once after sending.
at::Tensor host_buffer(at::IntArrayRef shape, at::ScalarType dtype, const at::Device& device);

// Sets libtorch's threads and starts them, seeds nothing; tunes malloc so that large activations
// are reused instead of unmapped. Error(kMemory) where the system refuses the threads that a run
// needs. Call once, before the first operator and before other threads are started.
void configure_runtime(int num_threads);
// From now on ATen's operators give the same bits each time; those that cannot throw. Ours, and all
// on a CPU, do so anyway. Call before a GPU is first used.
void use_deterministic_algorithms();

}  // namespace lmtrain
