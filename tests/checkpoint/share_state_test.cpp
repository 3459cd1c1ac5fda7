// What processes begin with alike; the processes are threads of the test.
#include "checkpoint/share_state.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "distributed/group.h"

namespace lmtrain {
namespace {

TEST(ShareState, EveryProcessTakesTheFewestRows) {
  as_ranks(3, [](Processes& processes) {
    MicroBatchLimits limits;
    if (processes.rank() == 1) limits = {1024, {{64, 4}, {32, 2}}};
    if (processes.rank() == 2) limits = {1024, {{64, 8}, {16, 1}}};
    share_limits(processes, limits);
    EXPECT_EQ(limits, (MicroBatchLimits{1024, {{16, 1}, {32, 2}, {64, 4}}}));
  });
}

// Every process says which one has other data.
TEST(ShareState, OtherDataIsRefusedByAll) {
  std::atomic<int> refused = 0;
  EXPECT_THROW(as_ranks(3,
                        [&](Processes& processes) {
                          require_alike(processes, "abc", "avx512");
                          try {
                            require_alike(processes, processes.rank() == 1 ? "xyz" : "abc", "avx2");
                          } catch (const Error& error) {
                            EXPECT_EQ(error.kind(), ErrorKind::kData);
                            const std::string message = error.what();
                            EXPECT_NE(message.find("rank 1 ("), std::string::npos) << message;
                            EXPECT_NE(message.find("xyz"), std::string::npos) << message;
                            ++refused;
                            throw;
                          }
                        }),
               Error);
  EXPECT_EQ(refused, 3);
}

TEST(ShareState, OtherInstructionsAreRefused) {
  try {
    as_ranks(2, [&](Processes& processes) {
      require_alike(processes, "abc", processes.rank() == 1 ? "avx2" : "avx512");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("avx2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lmtrain
