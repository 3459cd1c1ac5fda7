#include "device/device.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/support.h"
#include "device/torch_headers.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_TRUE(resolve_device("cpu").is_cpu());
  EXPECT_EQ(resolve_precision("fp32", at::kCPU).dtype, at::kFloat);
  EXPECT_NE(device_description(at::kCPU, 2).find("2 threads"), std::string::npos);
  EXPECT_NE(library_versions().find("libtorch 2.11.0"), std::string::npos);
}

TEST(Device, AutoTakesAGpuOnlyWhereThereIsOne) {
  const at::Device device = resolve_device("auto");
  if (device.is_cpu()) {
    const std::string message =
        testing::error_of(ErrorKind::kConfig, [] { resolve_device("cuda"); });
    EXPECT_NE(message.find("\"cuda\""), std::string::npos) << message;
    EXPECT_NE(message.find("set device to \"cpu\" or \"auto\""), std::string::npos) << message;
  } else {
    EXPECT_EQ(device, resolve_device("cuda"));
    EXPECT_EQ(resolve_precision("auto", device).dtype, at::kBFloat16);
  }
}

TEST(Device, PrecisionAutoIsWhatTheProcessorIsGoodAt) {
  const at::ScalarType chosen = resolve_precision("auto", at::kCPU).dtype;
  if (chosen == at::kBFloat16) {
    EXPECT_EQ(resolve_precision("bf16", at::kCPU).dtype, at::kBFloat16);
  } else {
    EXPECT_EQ(chosen, at::kFloat);
    const std::string message =
        testing::error_of(ErrorKind::kConfig, [] { resolve_precision("bf16", at::kCPU); });
    EXPECT_NE(message.find("bf16 instructions"), std::string::npos) << message;
  }
  EXPECT_EQ(precision_name({at::kBFloat16}), "bf16");
  EXPECT_EQ(precision_name({at::kFloat}), "fp32");
  EXPECT_EQ(precision_name({at::kHalf}), "fp16");
  testing::error_of(ErrorKind::kConfig, [] { resolve_precision("half", at::kCPU); });
}

TEST(Device, Fp8OnACpuIsRefusedWithWhatItNeeds) {
  const std::string message =
      testing::error_of(ErrorKind::kConfig, [] { resolve_precision("fp8", at::kCPU); });
  for (const char* part : {"\"fp8\"", "on a CPU", "8.9", "set precision to \"bf16\""})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(precision_name({at::kBFloat16, /*fp8=*/true}), "fp8");
}

TEST(Device, AHostBufferForTheCpuNeedNotBeSent) {
  const at::Tensor buffer = host_buffer({2, 3}, at::kLong, at::kCPU);
  EXPECT_EQ(buffer.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(buffer.scalar_type(), at::kLong);
  EXPECT_TRUE(buffer.to(at::kCPU, /*non_blocking=*/true).is_same(buffer));
}

// at::parallel_for is a header template that runs serially when its includer lacks -fopenmp.
TEST(Device, LoopsAreSharedAmongThreads) {
  const testing::Threads scope(2);
  std::atomic<int> chunks = 0;
  at::parallel_for(0, 1000, 1, [&](int64_t, int64_t) { ++chunks; });
  EXPECT_EQ(chunks, 2);
}

}  // namespace
}  // namespace lmtrain
