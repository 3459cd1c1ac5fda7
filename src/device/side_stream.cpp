#include "device/side_stream.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

class HostSide final : public SideStream {
 public:
  Mark mark() override { return nullptr; }
  void after(const Mark& /*mark*/, const std::function<void()>& work) override { work(); }
};

class DeviceSide final : public SideStream {
 public:
  explicit DeviceSide(const at::Device& device)
      : device_(*c10::impl::getDeviceGuardImpl(device.type())),
        stream_(device_.getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

  Mark mark() override {
    auto event = std::make_shared<c10::Event>(stream_.device_type());
    event->record(device_.getStream(stream_.device()));
    return event;
  }

  void after(const Mark& mark, const std::function<void()>& work) override {
    const c10::StreamGuard guard(stream_);
    std::static_pointer_cast<c10::Event>(mark)->block(stream_);
    work();
    // An exchange is done when it returns; what it queues behind its last message may not be.
    device_.synchronizeStream(stream_);
  }

 private:
  const c10::impl::DeviceGuardImplInterface& device_;
  c10::Stream stream_;
};

}  // namespace

std::shared_ptr<SideStream> side_stream(const at::Device& device) {
  if (device.is_cpu()) return std::make_shared<HostSide>();
  return std::make_shared<DeviceSide>(device);
}

}  // namespace lmtrain
