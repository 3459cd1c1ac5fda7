// `lmtrain bench`: what it prints, what it writes, and what it leaves alone.
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>
#include <string>

#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

TEST(Bench, JsonOfEveryLength) {
  const Workspace workspace;
  // No data is read, and none need be there.
  const std::string config = workspace.config({{"data", {{"train", {"nowhere/*.txt"}}}}});
  const ProcessResult result = lmtrain({"bench", config, "--json", "--steps", "2"});
  ASSERT_EQ(result.exit_code, 0) << result;
  const Json bench = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(bench.is_object()) << result;
  EXPECT_EQ(bench.at("steps"), 2);
  EXPECT_EQ(bench.at("precision"), "fp32");
  EXPECT_GT(bench.at("matmul_flops_per_second"), 0);
  std::vector<int64_t> lengths;
  for (const Json& length : bench.at("lengths")) {
    lengths.push_back(length.at("length"));
    double phases = 0;
    for (const Json& seconds : length.at("phases")) phases += seconds.get<double>();
    EXPECT_GT(phases, 0);
    EXPECT_GT(length.at("tokens_per_second"), 0);
    EXPECT_GT(length.at("peak_memory"), 1 << 20);
    EXPECT_TRUE(length.at("mfu").is_null());
    const double part = length.at("of_matmul_rate");
    EXPECT_NEAR(part * bench.at("matmul_flops_per_second").get<double>(),
                length.at("flops_per_second").get<double>(), 1);
  }
  EXPECT_EQ(lengths, (std::vector<int64_t>{16, 32, 64}));
  EXPECT_FALSE(fs::exists(workspace / "cache"));
}

TEST(Bench, ForPeopleWithAProfile) {
  const Workspace workspace;
  const std::string profile = (workspace / "trace.json").string();
  const ProcessResult result =
      lmtrain({"bench", workspace.config(), "--steps", "1", "--set",
               "model.activation_checkpointing=true", "--profile", profile});
  ASSERT_EQ(result.exit_code, 0) << result;
  for (const char* word : {"model", "matmul", "length", "forward", "backward", "update", "tokens/s",
                           "peak memory", "    64  "})
    EXPECT_NE(result.out.find(word), std::string::npos) << word << result;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_EQ(result.err.find("ERROR"), std::string::npos) << result;  // of the profiler's own
  const Json trace = Json::parse(read_text(profile), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(trace.is_object());
  std::map<std::string, int> count;
  for (const Json& event : trace.at("traceEvents")) ++count[event.at("name").get<std::string>()];
  EXPECT_EQ(count["forward"], 3);
  EXPECT_EQ(count["recompute"], 6);  // of two layers
  EXPECT_GT(count["lm::rope_attention"], 0);
}

TEST(Bench, RefusesBeforeItMeasures) {
  const Workspace workspace;
  const ProcessResult nowhere = lmtrain(
      {"bench", workspace.config(), "--profile", (workspace / "no/such/trace.json").string()});
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere;
  EXPECT_NE(nowhere.err.find("no/such"), std::string::npos) << nowhere;
  EXPECT_EQ(nowhere.err.find("ms a step"), std::string::npos) << nowhere;
  const fs::path notes = workspace.write("notes.txt", "precious");
  const ProcessResult taken = lmtrain({"bench", workspace.config(), "--profile", notes.string()});
  EXPECT_EQ(taken.exit_code, 2) << taken;
  EXPECT_NE(taken.err.find("is no trace"), std::string::npos) << taken;
  EXPECT_EQ(read_text(notes), "precious");
  EXPECT_EQ(lmtrain({"bench", workspace.config(), "--steps", "0"}).exit_code, 2);
  EXPECT_EQ(lmtrain({"bench", workspace.config({{"batch", {{"tokens", 100}}}})}).exit_code, 2);
  EXPECT_EQ(lmtrain({"bench"}).exit_code, 2);
}

TEST(Bench, ASignalEndsIt) {
  const Workspace workspace;
  LmtrainProcess process({"bench", workspace.config(), "--steps", "100000"});
  ASSERT_TRUE(process.wait_until([&] { return process.catches(SIGINT); }));
  process.send(SIGINT);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGINT);
}

}  // namespace
}  // namespace lmtrain::testing
