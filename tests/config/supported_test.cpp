#include <gtest/gtest.h>

#include "base/text.h"
#include "config_text.h"

namespace lmtrain {
namespace {

std::string unsupported(const Config& config) {
  try {
    check_supported(config);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
}

TEST(Supported, TheDefaultsAre) { EXPECT_EQ(unsupported(parsed("")), ""); }

TEST(Supported, EveryBatchingScheduleAndWeightIs) {
  for (const char* batching : {"bucket", "pad", "pack", "concat"}) {
    for (const char* schedule : {"constant", "linear", "root"}) {
      const Config config =
          parsed("", {str("sequence.batching=", batching), str("sequence.schedule.type=", schedule),
                      "data.train.0={\"path\":\"a\",\"weight\":2}",
                      "data.eval=[{\"path\":\"a\",\"weight\":2}]"});
      EXPECT_EQ(unsupported(config), "") << batching << " " << schedule;
    }
  }
}

TEST(Supported, EveryWayToCompileIs) {
  for (const char* compile : {"auto", "eager", "script", "graph"})
    EXPECT_EQ(unsupported(parsed("", {str("compile=", compile)})), "") << compile;
}

TEST(Supported, AnUnbuiltSettingIsNamedWithItsLine) {
  const Config config = parsed("\"precision\": \"fp8\"");
  const std::vector<std::string> lines = lines_of(unsupported(config));
  const std::vector<std::string> expected = {
      "run.json:2: /precision: fp8 is not built yet (it needs a GPU with matrix units for fp8, "
      "NVIDIA compute capability 8.9 or higher, and scaled matrix products that lmtrain does not "
      "have); this version supports: auto | fp32 | bf16 | fp16"};
  EXPECT_EQ(lines, expected) << join(lines, "\n");
}

}  // namespace
}  // namespace lmtrain
