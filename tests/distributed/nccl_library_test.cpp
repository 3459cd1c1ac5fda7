// The library as it was built: it loads beside the program, has the functions that the program
// calls, and says what it lacks where there is no GPU. tests/gpu/nccl_test.cpp runs it.
#include "distributed/nccl_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>

namespace lmtrain {
namespace {

#ifdef LMTRAIN_NCCL_LIBRARY
TEST(NcclLibrary, HasWhatTheProgramCalls) {
  EXPECT_EQ(::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), nullptr) << "it is linked";
  std::string problem;
  // By the name that NcclLibrary gives: it lies beside the test as it lies beside the program.
  const nccl::Calls* calls = load_nccl(NcclLibrary().file, problem);
  ASSERT_NE(calls, nullptr) << problem;
  EXPECT_EQ(calls, load_nccl(LMTRAIN_NCCL_LIBRARY, problem)) << problem;
  EXPECT_NE(::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_GE(calls->version(), 21400) << "non-blocking communicators";
  for (const void* function :
       {reinterpret_cast<const void*>(calls->gpu), reinterpret_cast<const void*>(calls->make_id),
        reinterpret_cast<const void*>(calls->connect), reinterpret_cast<const void*>(calls->sum),
        reinterpret_cast<const void*>(calls->broadcast),
        reinterpret_cast<const void*>(calls->all_gather),
        reinterpret_cast<const void*>(calls->reduce_scatter),
        reinterpret_cast<const void*>(calls->swap), reinterpret_cast<const void*>(calls->poll),
        reinterpret_cast<const void*>(calls->abort)}) {
    EXPECT_NE(function, nullptr);
  }
}

TEST(NcclLibrary, SaysThatThereIsNoGpu) {
  std::string problem;
  const nccl::Calls* calls = load_nccl(LMTRAIN_NCCL_LIBRARY, problem);
  ASSERT_NE(calls, nullptr) << problem;
  std::array<unsigned char, nccl::kGpuBytes> uuid{};
  const nccl::Status status = calls->gpu(0, uuid.data());
  if (status.state == nccl::State::kDone) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(std::string(status.error).find("cudaGetDeviceProperties: "), 0U) << status.error;
  const std::array<char, nccl::kIdBytes> id{};
  nccl::Communicator* communicator = nullptr;
  const nccl::Status connected = calls->connect(id.data(), 0, 1, 0, &communicator);
  EXPECT_EQ(connected.state, nccl::State::kFailed);
  EXPECT_STRNE(connected.error, "");
  ASSERT_NE(communicator, nullptr);
  EXPECT_EQ(calls->poll(communicator).state, nccl::State::kFailed);
  calls->abort(communicator);
}
#endif

}  // namespace
}  // namespace lmtrain
