// Page-locked memory of the host. Every test skips itself on a machine without a GPU.
#include "device/device.h"

#include "device/host_copier.h"
#include "device/torch_headers.h"
#include "gpu.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::gpu;
using testing::random_tensor;
using testing::same_bits;

TEST(GpuDevice, HostBuffersArePageLocked) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const at::Tensor buffer = testing::random_integers(0, 9, {100}, 1);
  const at::Tensor locked = host_buffer({100}, at::kLong, *device);
  EXPECT_TRUE(locked.is_pinned());
  locked.copy_(buffer);
  EXPECT_TRUE(same_bits(locked.to(*device, /*non_blocking=*/true).cpu(), buffer));
}

TEST(GpuDevice, CopiesToTheHostGoThroughPageLockedBuffers) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const auto queue = host_copy_queue(*device);
  EXPECT_TRUE(queue->buffer(1 << 20).is_pinned());
  HostCopier copier(host_copy_queue, 1 << 20);
  for (const int64_t numel : {int64_t{1}, int64_t{1} << 18, (int64_t{5} << 18) + 3}) {
    const at::Tensor values = random_tensor({numel}, 1, at::kFloat);
    const at::Tensor on_device = values.to(*device);
    EXPECT_TRUE(same_bits(copier.copy(on_device), values));
    on_device.add_(1);  // what is queued after the copy changes nothing of it
    EXPECT_TRUE(same_bits(copier.copy(on_device), values + 1));
  }
}

}  // namespace
}  // namespace lmtrain
