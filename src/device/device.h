// Decides on which device and in which precision a run computes: what `auto` means on this machine,
// and why.
//
// libtorch_cuda.so is loaded at run time, from beside libtorch_cpu.so, only where an NVIDIA driver
// is present; the same program therefore serves machines with and without a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace lmtrain {

struct Config;

// Returns the device of `name`: "auto", "cpu", "cuda" or "cuda:N" (is_device_name of
// config/settings.h). "cuda" is GPU 0. "auto" is GPU 0, or the CPU if no GPU can be used; if there
// is a driver, a warning says why. A GPU has its index. Loads the CUDA library if needed. Throws
// Error(kConfig), which says why, if the named device cannot be used.
at::Device resolve_device(const std::string& name);

// The number formats that a run computes in.
struct Precision {
  at::ScalarType dtype;  // dtype of the working weights and activations
  bool fp8 = false;      // products with a layer's matrices take fp8 operands (ops/fp8.h)
};
// Returns the precision for "auto", "fp32", "bf16", "fp16" or "fp8". A device has bf16 if it is a
// GPU of compute capability 8.0 or later, or a CPU with avx512_bf16 that ATEN_CPU_CAPABILITY
// allows. A GPU of unknown capability counts as 8.0: a GPU that is not here, or any GPU in a
// program without CUDA kernels. "auto" is bf16 on a device that has it, else fp32. "fp8" is bf16
// except in the products above. A GPU must have an index, such as cuda:0. Throws Error(kConfig)
// for:
//   bf16 on a device that does not have it (fp16 is accepted everywhere)
//   fp8, unless the device is a GPU of capability 8.9 or later that our kernels serve
//   any other name
Precision resolve_precision(const std::string& name, const at::Device& device);
std::string precision_name(const Precision& precision);  // "fp32", "bf16", "fp16", "fp8"
// Returns why "auto" is what it is on the device: "the processor has instructions for bf16
// (avx512_bf16)".
std::string why_auto_precision(const at::Device& device);

// The device and the precision of a resolved config; they throw like the functions above.
at::Device device_of(const Config& config);
Precision precision_of(const Config& config);

// Returns a description for logs and reports: "AMD EPYC 9B14, 2 threads, avx512_bf16 kernels" or
// "NVIDIA H200".
std::string device_description(const at::Device& device, int num_threads);
// Returns the dense matmul FLOP/s of a GPU in bf16 or fp16 by its data sheet, for the MFU; nothing
// for an unknown GPU, for a CPU, and for fp32. Pass bf16 for a run in fp8, since only some of its
// products are in fp8.
std::optional<double> known_peak_flops(const at::Device& device, at::ScalarType dtype);
// Returns one line for --version: the versions of libtorch and of CUDA, or why CUDA is not in use,
// and what kernels there are for GPUs and this CPU. Loads the CUDA library if needed.
std::string library_versions();

// Returns an uninitialised tensor on the host, to be filled and copied to `device` with
// non_blocking; page-locked if that is a GPU. It may be destroyed right after copy_().
at::Tensor host_buffer(at::IntArrayRef shape, at::ScalarType dtype, const at::Device& device);

// Sets the number of libtorch's threads and starts them. Makes the heap keep freed memory, and
// calls use_caching_allocator(). Throws Error(kMemory) if the system refuses the threads that a run
// needs. Call it once, before the first operator and before other threads start.
void configure_runtime(int num_threads);
// Makes ATen's operators give the same bits each time from now on; one that cannot do so throws.
// Our operators, and all operators on a CPU, do so anyway. Sets CUBLAS_WORKSPACE_CONFIG unless it
// is set, and forbids cuDNN's attention (ops/flash_attention.h) and libtorch's memory-efficient
// one. Call it before a GPU is first used.
void use_deterministic_algorithms();

}  // namespace lmtrain
