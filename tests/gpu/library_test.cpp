// What lmtrain takes from libtorch_cuda.so by name: it must be there, with or without a driver.
// Skips itself where the CUDA wheels are not set up.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(GpuLibrary, BringsHooksAndAllocator) {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    GTEST_SKIP() << "libtorch_cuda.so does not load: " << dlerror();
  }
  // Without it these are stubs that throw.
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  EXPECT_NO_THROW(EXPECT_EQ(hooks.versionCUDART() / 1000, 13));
  EXPECT_TRUE(hooks.hasCuDNN());
  EXPECT_GE(hooks.versionCuDNN(), 91500);  // from there on ATen takes cuDNN's attention on Hopper
  EXPECT_NE(dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(at::kCUDA)), nullptr);
  // ops/weight_gradient.cpp
  const auto addmm = c10::Dispatcher::singleton().findSchema({"aten::addmm", "dtype_out"});
  ASSERT_TRUE(addmm.has_value());
  EXPECT_TRUE(addmm->hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

}  // namespace
}  // namespace lmtrain
