#include "device/failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace lmtrain {
namespace {

constexpr const char* kThreadCure =
    "; raise the limit on threads (ulimit -u) or address space (ulimit -v), or lower threads";
constexpr const char* kMemoryCure =
    "; lower batch.micro_tokens, sequence.max_length or the model's sizes (eval: --batch-tokens, "
    "--max-length)";

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The CPU allocator throws no type of its own, and TorchScript passes any error on as text. The
// libraries of a GPU allocate past libtorch: cuBLAS, cuSOLVER and cuDNN 8 say
// "CUBLAS_STATUS_ALLOC_FAILED" and its like, cuDNN 9
// "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED".
bool says_out_of_memory(const std::string& text) {
  constexpr std::array<std::string_view, 6> kTexts = {
      "can't allocate memory", "out of memory",      "std::bad_alloc",
      "_STATUS_ALLOC_FAILED",  "_ALLOCATION_FAILED", "cudaErrorMemoryAllocation"};
  return std::any_of(kTexts.begin(), kTexts.end(),
                     [&](std::string_view part) { return contains(text, part); });
}

bool names_a_gpu(const std::string& text) {
  constexpr std::array<std::string_view, 5> kNames = {"CUDA", "CUBLAS", "CUDNN", "CUSOLVER",
                                                      "cudaError"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return contains(text, name); });
}

// "you tried to allocate 6505922560 bytes" on a CPU, "Tried to allocate 2.50 GiB. GPU 0 has ..." on
// a GPU, when it is said.
std::string asked_for(const std::string& text) {
  constexpr std::string_view kOnCpu = "you tried to allocate ", kOnGpu = "Tried to allocate ";
  std::string asked;
  if (const size_t begin = text.find(kOnCpu); begin != std::string::npos) {
    const uint64_t bytes = std::strtoull(text.c_str() + begin + kOnCpu.size(), nullptr, 10);
    if (bytes > 0) asked = format_bytes(bytes);
  } else if (const size_t said = text.find(kOnGpu); said != std::string::npos) {
    const std::string rest = text.substr(said + kOnGpu.size());
    if (const size_t end = rest.find("iB"); end != std::string::npos)
      asked = rest.substr(0, end + 2);
  }
  return asked.empty() ? "" : str(" (", asked, " more were asked for)");
}

// The message without the call stack that libtorch appends.
std::string text_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

// TorchScript puts its call stack in front of the one line that says what happened.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

bool is_shortage(const std::system_error& error) {
  return error.code() == std::errc::not_enough_memory ||
         error.code() == std::errc::resource_unavailable_try_again;  // no more threads
}

}  // namespace

Failure describe_failure(const std::exception& error) {
  const auto failure = [](ErrorKind kind, const std::string& cause, const char* advice = "") {
    return Failure{kind, cause + advice, cause};
  };
  if (const auto* lost = dynamic_cast<const ProcessLost*>(&error))
    return {lost->kind(), lost->what(), lost->what(), lost->exit_code()};
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    // Our CUDA kernels report what the driver says: a kernel's code and local memory are allocated
    // where it is first launched.
    const bool shortage =
        known->kind() == ErrorKind::kInternal && says_out_of_memory(known->what());
    if (!shortage) return failure(known->kind(), known->what());
    return failure(ErrorKind::kMemory, known->what(), kMemoryCure);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return failure(ErrorKind::kMemory, "out of memory", kMemoryCure);
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && is_shortage(*system)) {
    return failure(ErrorKind::kMemory, str("out of memory or threads: ", system->what()),
                   kThreadCure);
  }
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    return failure(ErrorKind::kIo, error.what(), "; check the path and its permissions");
  }
  const std::string text = text_of(error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || says_out_of_memory(text)) {
    return failure(ErrorKind::kMemory,
                   str("out of memory", names_a_gpu(text) ? " on the GPU" : "", asked_for(text)),
                   kMemoryCure);
  }
  const bool by_libtorch = dynamic_cast<const c10::Error*>(&error) != nullptr;
  return failure(ErrorKind::kInternal,
                 str(by_libtorch ? "libtorch: " : "internal error: ", last_line(text)),
                 "; please report it");
}

bool is_refused_by_cudnn(const std::exception& error) {
  const std::string text = text_of(error);
  return contains(text, "cuDNN Frontend error") && !says_out_of_memory(text);
}

void log_torch_warnings() {
  class LoggedWarnings final : public c10::WarningHandler {
   public:
    void process(const c10::Warning& warning) override {
      const c10::SourceLocation& where = warning.source_location();
      log_warning(str("libtorch, ", std::filesystem::path(where.file).filename().string(), ":",
                      where.line, ": ", warning.msg()));
    }
  };
  static LoggedWarnings handler;
  c10::WarningUtils::set_warning_handler(&handler);
}

}  // namespace lmtrain
