#include "device/dispatch.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>

#include "base/log.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// Empty when they serve it.
std::string why_not_served([[maybe_unused]] const at::Device& device) {
#ifdef LMTRAIN_CUDA_ARCHITECTURES
  const c10::DeviceGuard guard(device);
  if (cuda::serves_current_device()) return "";
  return "has GPU code for " LMTRAIN_CUDA_ARCHITECTURES
         " alone; build with -DLMTRAIN_CUDA_ARCHITECTURES=native on this machine";
#else
  return "was built without GPU code; build where nvcc is, with -DLMTRAIN_CUDA=on";
#endif
}

}  // namespace

bool cuda_kernels_serve(const at::Device& device) {
  enum : int8_t { kUnknown, kYes, kNo };
  static std::array<std::atomic<int8_t>, 128> known{};  // at::DeviceIndex is of 8 bits
  std::atomic<int8_t>& answer = known.at(static_cast<size_t>(device.index()));
  if (answer == kUnknown) {
    const std::string reason = why_not_served(device);
    // Two threads may ask at once: the answer is the same, and one of them reports it.
    if (answer.exchange(reason.empty() ? kYes : kNo) == kUnknown && !reason.empty()) {
      log_warning(str("on ", device.str(),
                      " the operators are libtorch's, which is slower: this program ", reason));
    }
  }
  return answer == kYes;
}

int compute_capability([[maybe_unused]] const at::Device& device) {
#ifdef LMTRAIN_CUDA_ARCHITECTURES
  const c10::DeviceGuard guard(device);
  return cuda::compute_capability();
#else
  return 0;
#endif
}

std::string cuda_name([[maybe_unused]] const at::Device& device) {
#ifdef LMTRAIN_CUDA_ARCHITECTURES
  const c10::DeviceGuard guard(device);
  return cuda::device_name();
#else
  return "";
#endif
}

cuda::Call cuda_call(const at::Tensor& x) {
  const cuda::ElementType type = x.scalar_type() == at::kFloat      ? cuda::ElementType::kFloat
                                 : x.scalar_type() == at::kBFloat16 ? cuda::ElementType::kBf16
                                                                    : cuda::ElementType::kHalf;
  // Through libtorch's own interface: no header and no library of CUDA is needed here.
  const auto* device = c10::impl::getDeviceGuardImpl(at::kCUDA);
  return {type, device->getStreamNativeHandle(device->getStream(x.device()))};
}

}  // namespace lmtrain
