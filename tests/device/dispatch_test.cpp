#include "device/dispatch.h"

#include <gtest/gtest.h>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

TEST(Dispatch, KernelsOnACpuAreForFp32AndBf16) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    EXPECT_TRUE(has_kernel(at::empty({1}, dtype)));
    EXPECT_TRUE(has_cpu_kernel(at::empty({1}, dtype)));
    EXPECT_FALSE(has_cuda_kernel(at::empty({1}, dtype)));
  }
  for (const at::ScalarType dtype : {at::kHalf, at::kDouble, at::kLong}) {
    EXPECT_FALSE(has_kernel(at::empty({1}, dtype)));
  }
}

TEST(Dispatch, ATensorOnTheCpuRunsThereAlone) {
  size_t size = 0;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::empty({1}, dtype);
    on_cpu(x, [&]<class T>(T) { size = sizeof(T); });
    EXPECT_EQ(size, x.element_size());
    on_cuda(x, [&](const auto&) { FAIL() << "no tensor of a GPU"; });
  }
}

TEST(Dispatch, ATensorElsewhereIsLeftAlone) {
  on_cpu(at::empty({1}, at::TensorOptions(at::kMeta).dtype(at::kFloat)),
         [&]<class T>(T) { FAIL() << "no tensor of the CPU"; });
}

}  // namespace
}  // namespace lmtrain
