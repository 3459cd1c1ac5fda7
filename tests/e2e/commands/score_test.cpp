// `lmtrain eval --score` gives the answers of lm-eval's HFLM (tests/reference/scoring).
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "e2e/errors/error_case.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kScoring = LMTRAIN_SOURCE_DIR "/tests/reference/scoring";

std::vector<Json> answers_in(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(Score, EqualsLmEval) {
  const std::string requests = (kScoring / "requests.jsonl").string();
  for (const char* length : {"16", "64"}) {
    const std::vector<Json> expected =
        answers_in(read_text(kScoring / ("answers_" + std::string(length) + ".jsonl")));
    for (const char* batch : {"16", "8192"}) {
      const ProcessResult result = lmtrain({"eval", kHfFolder.string(), "--score", requests,
                                            "--max-length", length, "--batch-tokens", batch});
      ASSERT_EQ(result.exit_code, 0) << result;
      EXPECT_EQ(result.err, "") << result;
      const std::vector<Json> actual = answers_in(result.out);
      ASSERT_EQ(actual.size(), expected.size());
      ASSERT_GT(actual.size(), 100U);
      for (size_t i = 0; i < actual.size(); ++i) {
        EXPECT_EQ(field_names(actual[i]),
                  (std::vector<std::string>{"logprob", "is_greedy", "tokens"}));
        EXPECT_NEAR(actual[i].at("logprob"), expected[i].at("logprob").get<double>(), 1e-4) << i;
        if (expected[i].contains("is_greedy")) {
          EXPECT_EQ(actual[i].at("is_greedy"), expected[i].at("is_greedy")) << i;
        }
      }
    }
  }
}

TEST(Score, OfARunIsThatOfItsNewestCheckpoint) {
  const Workspace workspace;
  const std::string requests = workspace.write(
      "r.jsonl", "{\"context\":\"the \",\"continuation\":\"ring\"}\n{\"text\":\"buffer\"}\n");
  const RunDir& run = reference().run;
  const ProcessResult of_run = lmtrain({"eval", run.path(), "--score", requests});
  EXPECT_EQ(of_run.exit_code, 0) << of_run;
  EXPECT_EQ(answers_in(of_run.out).size(), 2U) << of_run;
  const ProcessResult of_checkpoint =
      lmtrain({"eval", run.newest_checkpoint().string(), "--score", requests});
  EXPECT_EQ(of_checkpoint.out, of_run.out);
  const ProcessResult of_older =
      lmtrain({"eval", run.checkpoint(39).string(), "--score", requests});
  EXPECT_EQ(of_older.exit_code, 0) << of_older;
  EXPECT_NE(of_older.out, of_run.out);
}

TEST(Score, TakesAPipe) {
  const ProcessResult result = Process({"/bin/sh", "-c",
                                        "printf '{\"text\":\"a\"}\\n' | " + lmtrain_binary() +
                                            " eval " + kHfFolder.string() + " --score /dev/stdin"},
                                       on_one_core({}))
                                   .wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(answers_in(result.out).size(), 1U) << result;
}

std::vector<ErrorCase> score_cases() {
  const std::string hf = kHfFolder.string();
  const auto file_case = [&](const std::string& name, const std::string& text,
                             const std::vector<std::string>& parts) {
    return ErrorCase{name, 3, parts, [=](const Workspace& workspace) {
                       return Arguments{"eval", hf, "--score", workspace.write("r.jsonl", text)};
                     }};
  };
  return {
      command_case("ScoreMissingFile", 2, {"eval", hf, "--score", "no-such.jsonl"},
                   {"no-such.jsonl", "does not exist"}),
      command_case("ScoreOfAFolder", 2, {"eval", hf, "--score", "data/sample"},
                   {"data/sample", "is a folder"}),
      command_case("ScoreEmptyPath", 2, {"eval", hf, "--score", ""}, {"--score", "a path"}),
      command_case("ScoreAndData", 2, {"eval", hf, "--score", "a.jsonl", "--data", "b.txt"},
                   {"--score", "--data"}),
      command_case("ScoreAndJson", 2, {"eval", hf, "--score", "a.jsonl", "--json"},
                   {"--score", "--json"}),
      command_case("ScoreAndFormat", 2, {"eval", hf, "--score", "a.jsonl", "--format", "jsonl"},
                   {"--format", "--data"}),
      file_case("ScoreDamagedLine", "{\"text\":\"a\"}\n{\"text\":\n", {"r.jsonl:2", "not JSON"}),
      file_case("ScoreOtherFields", "{\"prompt\":\"a\"}\n", {"r.jsonl:1", "\"continuation\""}),
      file_case("ScoreLongContinuation",
                "{\"context\":\"a\",\"continuation\":\"" + std::string(500, 'q') + "\"}\n",
                {"r.jsonl:1", "takes 64 at once"}),
  };
}

INSTANTIATE_TEST_SUITE_P(Score, Errors, ::testing::ValuesIn(score_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
