#include "device/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>
#include <malloc.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "config/config.h"
#include "device/caching_allocator.h"
#include "device/dispatch.h"
#include "kernels/cpu/kernels.h"

namespace lmtrain {
namespace {

#ifdef LMTRAIN_CUDA_ARCHITECTURES
constexpr const char* kArchitectures = LMTRAIN_CUDA_ARCHITECTURES;
#else
constexpr const char* kArchitectures = "none";
#endif

bool has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr; }

// cuDNN compiles its attention at the first call. It asks for the compiler and the compiler's
// builtins by name only, so both must be loaded before. A library of libtorch knows their folder.
void load_run_time_compiler() {
  constexpr int kMode = RTLD_NOW | RTLD_GLOBAL;
  dlopen("libcaffe2_nvrtc.so", kMode);
  void* const compiler = dlopen("libnvrtc.so.13", kMode);
  std::array<char, PATH_MAX> folder{};
  if (compiler != nullptr && dlinfo(compiler, RTLD_DI_ORIGIN, folder.data()) == 0) {
    dlopen(str(folder.data(), "/libnvrtc-builtins.so.13.0").c_str(), kMode);
  }
}

// Empty on success, else why CUDA cannot be used.
std::string load_cuda() {
  static const std::string problem = []() -> std::string {
    if (!has_driver()) return "no NVIDIA driver (libcuda.so.1) on this machine";
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      return str("libtorch_cuda.so does not load (", dlerror(),
                 "); run scripts/setup.sh with LMTRAIN_CUDA=on");
    }
    load_run_time_compiler();
    if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0)
      return "the driver reports no usable GPU";
    return "";
  }();
  return problem;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "CPU";
}

// Without CUDA kernels the program cannot ask CUDA, and reads the driver's own files.
std::string gpu_name(const at::Device& device) {
  if (std::string name = cuda_name(device); !name.empty()) return name;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end;
       !error && gpu != end; gpu.increment(error)) {
    std::ifstream info(gpu->path() / "information");
    for (std::string line; std::getline(info, line);) {
      if (line.rfind("Model:", 0) == 0)
        names.push_back(line.substr(line.find_first_not_of(" \t", 6)));
    }
  }
  const auto index = static_cast<size_t>(+device.index());  // an int8_t
  // Without the files, or if CUDA_VISIBLE_DEVICES renumbers unlike GPUs, only the index is sure.
  const bool all_alike =
      !names.empty() &&
      std::all_of(names.begin(), names.end(), [&](const auto& n) { return n == names[0]; });
  return all_alike ? names[0] : str("GPU ", index);
}

// Takes an unknown GPU for a recent one: a run may be planned for a GPU that is not here, and only
// the program's CUDA kernels can tell what a GPU can do.
bool gpu_multiplies_bf16(const at::Device& device) {
  const bool can_tell = device.is_cuda() && load_cuda().empty();
  const int capability = can_tell ? compute_capability(device) : 0;
  return capability == 0 || capability >= 80;
}

bool multiplies_bf16(const at::Device& device) {
  return device.is_cpu() ? cpu_multiplies_bf16() : gpu_multiplies_bf16(device);
}

// Empty if the device has products in fp8. Requires the kernels that cast to fp8 too: ATen's
// operators would take more time than the products save.
std::string why_no_fp8(const at::Device& device) {
  constexpr const char* kNeeded =
      "an NVIDIA GPU of compute capability 8.9 or higher (Ada, Hopper, Blackwell) has units for it";
  if (device.is_cpu()) return str("this run is on a CPU, and only ", kNeeded);
  if (!cuda_kernels_serve(device)) {
    return "it needs CUDA kernels of lmtrain's own, and this program has none for this GPU; build "
           "it where nvcc of CUDA 13 is";
  }
  const int capability = compute_capability(device);
  return capability >= 89 ? ""
                          : str(gpu_name(device), " has compute capability ", capability / 10, ".",
                                capability % 10, ", and only ", kNeeded);
}

}  // namespace

at::Device resolve_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  const std::string problem = load_cuda();
  if (name == "auto") {
    if (!problem.empty() && has_driver()) log_warning(str("computing on the CPU: ", problem));
    return problem.empty() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  }
  if (!problem.empty()) {
    throw Error(ErrorKind::kConfig, str("device \"", name, "\" cannot be used: ", problem,
                                        "; set device to \"cpu\" or \"auto\""));
  }
  const at::Device device = name == "cuda" ? at::Device(at::kCUDA, 0) : at::Device(name);
  const int64_t count = +at::detail::getCUDAHooks().deviceCount();
  if (device.index() >= count) {
    throw Error(ErrorKind::kConfig, str("device \"", name, "\" does not exist: this machine has ",
                                        count, " GPU(s), numbered from 0"));
  }
  return device;
}

std::string why_auto_precision(const at::Device& device) {
  const bool has_bf16 = multiplies_bf16(device);
  if (device.is_cuda())
    return has_bf16 ? "the GPU has units for bf16" : "the GPU's compute capability is below 8.0";
  if (has_bf16) return str("the processor has instructions for bf16 (", cpu_kernels_isa(), ")");
  return "the processor has no instructions for bf16 (avx512_bf16), or ATEN_CPU_CAPABILITY forbids "
         "them";
}

Precision resolve_precision(const std::string& name, const at::Device& device) {
  const bool has_bf16 = multiplies_bf16(device);
  if (name == "auto") return {has_bf16 ? at::kBFloat16 : at::kFloat};
  if (name == "fp32") return {at::kFloat};
  if (name == "bf16") {
    if (!has_bf16) {
      throw Error(
          ErrorKind::kConfig,
          device.is_cpu()
              ? str("precision \"bf16\": ", why_auto_precision(device),
                    "; fp32 is many times faster then: set precision to \"fp32\" or \"auto\"")
              : str("precision \"bf16\": ", gpu_name(device),
                    " has no units for it, which begin with compute capability 8.0; set "
                    "precision to \"fp16\", \"fp32\" or \"auto\""));
    }
    return {at::kBFloat16};
  }
  if (name == "fp16") return {at::kHalf};
  if (name == "fp8") {
    if (const std::string lack = why_no_fp8(device); !lack.empty()) {
      throw Error(ErrorKind::kConfig, str("precision \"fp8\": ", lack,
                                          "; set precision to \"bf16\", \"fp32\" or \"auto\""));
    }
    return {at::kBFloat16, /*fp8=*/true};
  }
  throw Error(ErrorKind::kConfig,
              str("there is no precision \"", name, "\"; allowed: auto, fp32, bf16, fp16, fp8"));
}

at::Device device_of(const Config& config) { return resolve_device(config.device); }

Precision precision_of(const Config& config) {
  return resolve_precision(name_of(config.precision), device_of(config));
}

std::string precision_name(const Precision& precision) {
  if (precision.fp8) return "fp8";
  if (precision.dtype == at::kHalf) return "fp16";
  return precision.dtype == at::kBFloat16 ? "bf16" : "fp32";
}

std::string device_description(const at::Device& device, int num_threads) {
  if (device.is_cpu())
    return str(processor_name(), ", ", counted(num_threads, "thread"), ", ", cpu_kernels_isa(),
               " kernels");
  return gpu_name(device);
}

std::optional<double> known_peak_flops(const at::Device& device, at::ScalarType dtype) {
  // TFLOP/s for bf16 and fp16 with fp32 accumulation, from NVIDIA's data sheets, without sparsity.
  constexpr std::array<std::pair<const char*, double>, 5> kPeaks = {
      {{"H100", 989}, {"H200", 989}, {"A100", 312}, {"B200", 2250}, {"L40S", 362}}};
  if (device.is_cpu() || dtype == at::kFloat) return std::nullopt;
  const std::string name = gpu_name(device);
  for (const auto& [part, teraflops] : kPeaks) {
    const size_t offset = name.find(part);
    if (offset == std::string::npos) continue;
    // Not GPUs of less power: "RTX A1000", "H100 PCIe", "H100 NVL", and parts of one: "MIG".
    const std::string rest = name.substr(offset + std::strlen(part));
    const bool is_word = rest.empty() || std::isdigit(static_cast<unsigned char>(rest[0])) == 0;
    const auto names = [&](const char* variant) { return rest.find(variant) != std::string::npos; };
    if (!is_word || names("PCIe") || names("NVL") || names("MIG")) continue;
    return teraflops * 1e12;
  }
  return std::nullopt;
}

std::string library_versions() {
  const std::string problem = load_cuda();
  const std::string cuda = problem.empty()
                               ? str("CUDA ", at::detail::getCUDAHooks().versionCUDART() / 1000)
                               : str("CUDA not in use: ", problem);
  return str("libtorch ", TORCH_VERSION, "; ", cuda,
             "; GPU architectures compiled in: ", kArchitectures,
             "; CPU kernels: ", cpu_kernels_isa());
}

at::Tensor host_buffer(at::IntArrayRef shape, at::ScalarType dtype, const at::Device& device) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).pinned_memory(device.is_cuda()));
}

void configure_runtime(int num_threads) {
  // What a step frees, the next one asks for again: the heap keeps it instead of giving the pages
  // back to the system and faulting them in anew. (A threshold for mmap cannot be set above 32 MiB,
  // so it is turned off.) Large tensors are beside the heap.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  use_caching_allocator();
  // libtorch keeps two pools, its own and OpenMP's. Beside them either the threads that encode text
  // are at work, or the loader and the saver.
  const int in_a_pool = num_threads - 1;
  require_threads(2 * in_a_pool + std::max(in_a_pool, 2));
  // libtorch starts its own pool here, and waits for ever if a thread is refused.
  at::set_num_threads(num_threads);
  // OpenMP's threads stay from their first use on. Where one is refused later, libgomp ends the
  // program.
  at::parallel_for(0, num_threads, 1, [](int64_t, int64_t) {});
}

void use_deterministic_algorithms() {
  // cuBLAS reads it when it is first used; without it, it may take a workspace of any size.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  // Tensors need no filling: none of our operators reads what it has not written.
  context.setDeterministicFillUninitializedMemory(false);
  // FlashAttention and the composition have a backward that gives the same bits each time.
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

}  // namespace lmtrain
