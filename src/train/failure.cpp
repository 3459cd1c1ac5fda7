#include "train/failure.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <new>
#include <system_error>

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

// The CPU allocator throws no type of its own, and TorchScript passes any error on as text.
bool says_out_of_memory(const std::string& text) {
  return contains(text, "can't allocate memory") || contains(text, "out of memory") ||
         contains(text, "std::bad_alloc");
}

// "you tried to allocate 6505922560 bytes", when it is said.
std::string asked_for(const std::string& text) {
  constexpr std::string_view kBefore = "you tried to allocate ";
  const size_t begin = text.find(kBefore);
  if (begin == std::string::npos) return "";
  const uint64_t bytes = std::strtoull(text.c_str() + begin + kBefore.size(), nullptr, 10);
  return bytes == 0 ? "" : str(" (", format_bytes(bytes), " more were asked for)");
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
  if (const auto* known = dynamic_cast<const Error*>(&error))
    return failure(known->kind(), known->what());
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
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || says_out_of_memory(text)) {
    const bool on_gpu = contains(text, "CUDA");
    return failure(ErrorKind::kMemory,
                   str("out of memory", on_gpu ? " on the GPU" : "", asked_for(text)), kMemoryCure);
  }
  return failure(ErrorKind::kInternal,
                 str(torch != nullptr ? "libtorch: " : "internal error: ", last_line(text)),
                 "; please report it");
}

}  // namespace lmtrain
