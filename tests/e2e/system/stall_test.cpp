// A disk that does not answer: the run says which file it waits for, and goes on when it answers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

// The disk answers once the file `busy` is gone.
ProcessOptions slow_disk(const std::filesystem::path& busy) {
  ProcessOptions options;
  options.env = {{"LD_PRELOAD", LMTRAIN_DELAY_LIBRARY},
                 {"LMTRAIN_DELAY_PATH", "step_00000003/optimizer.safetensors"},
                 {"LMTRAIN_DELAY_WHILE", busy}};
  return options;
}

TEST(Stall, NamesTheFileThatIsWaitedForAndGoesOn) {
  const RunDir run(reference().fresh("slow disk"));
  const std::filesystem::path busy = reference().fresh("busy");
  std::ofstream(busy).put('\n');
  LmtrainProcess process(
      {"train", reference().config, "--run-dir", run.path(), "--set", "log.stall=1s"},
      slow_disk(busy));
  const std::string file = "syncing " + run.path() + "/checkpoints/.tmp-step_00000003/optimizer";
  // The limit is ten times the longest sync before, so the delay cannot have a fixed length. The
  // loop waits for the checkpoint as soon as the next one is due.
  EXPECT_TRUE(process.wait_until([&] {
    const std::string said = process.err();
    return said.find("it has been " + file) != std::string::npos &&
           said.find("waiting for the checkpoint step_00000003") != std::string::npos;
  })) << process.err();
  std::filesystem::remove(busy);
  const ProcessResult result = process.wait();
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("warning: the run makes no progress: it has been " + file),
            std::string::npos)
      << result;
  EXPECT_NE(result.err.find("the run goes on: " + file), std::string::npos) << result;
  std::vector<Json> stalls = run.events("stall");
  std::erase_if(stalls, [&](const Json& stall) {  // a busy machine may have had others
    return !stall.at("reason").get<std::string>().starts_with(file);
  });
  ASSERT_EQ(stalls.size(), 2U);
  EXPECT_GE(stalls[0].at("seconds"), 1);
  EXPECT_GE(stalls[0].at("step"), 3);
  EXPECT_FALSE(stalls[0].at("over"));
  EXPECT_TRUE(stalls[1].at("over"));
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Stall, ARunThatGoesOnSaysNothing) { EXPECT_TRUE(reference().run.events("stall").empty()); }

}  // namespace
}  // namespace lmtrain::testing
