#include "checkpoint/trial.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::replace_file;
using testing::TemporaryFolder;

TrialResult trial(int64_t seed, std::optional<double> first_loss, std::optional<double> loss) {
  TrialResult result;
  result.seed = seed;
  result.step = 4;
  result.tokens = 512;
  result.first_loss = first_loss;
  result.loss = loss;
  return result;
}

class TrialTest : public ::testing::Test {
 protected:
  std::filesystem::path file(int64_t seed) const {
    return trial_folder(run, seed).path() / "trial.json";
  }
  TemporaryFolder folder;
  RunFolder run{folder / "run"};
};

TEST_F(TrialTest, IsWrittenFieldByFieldAndReadBack) {
  TrialResult result = trial(1339, 5.5, 1.0 / 3);
  result.attempt = 2;
  result.diverged = true;
  result.continued = true;
  result.reason = "the loss \"spiked\"";
  result.fingerprint = "8c1f";
  write_trial(run, result);
  EXPECT_EQ(read_file(file(1339)),
            R"({
  "attempt": 2,
  "seed": 1339,
  "diverged": true,
  "continued": true,
  "reason": "the loss \"spiked\"",
  "step": 4,
  "tokens": 512,
  "first_eval_loss": 5.5,
  "eval_loss": 0.3333333333333333,
  "fingerprint": "8c1f"
}
)");
  const TrialResult read = read_trials(run).at(0);
  EXPECT_EQ(read.attempt, 2);
  EXPECT_EQ(read.seed, 1339);
  EXPECT_TRUE(read.diverged && read.continued);
  EXPECT_EQ(read.reason, result.reason);
  EXPECT_EQ(read.step, 4);
  EXPECT_EQ(read.tokens, 512);
  EXPECT_EQ(read.first_loss, 5.5);
  EXPECT_EQ(read.loss, 1.0 / 3);
  EXPECT_EQ(read.fingerprint, "8c1f");
  // An earlier lmtrain wrote none.
  std::string text = read_file(file(1339));
  text.replace(text.find(",\n  \"fingerprint"),
               std::string(",\n  \"fingerprint\": \"8c1f\"").size(), "");
  replace_file(file(1339), text);
  EXPECT_EQ(read_trials(run).at(0).fingerprint, "");
}

TEST_F(TrialTest, ALossThatIsNotFiniteIsNone) {
  write_trial(run, trial(1, NAN, INFINITY));
  const TrialResult read = read_trials(run).at(0);
  EXPECT_EQ(read.first_loss, std::nullopt);
  EXPECT_EQ(read.loss, std::nullopt);
}

TEST_F(TrialTest, AreReadInTheOrderOfAttemptAndSeed) {
  EXPECT_TRUE(read_trials(run).empty());
  TrialResult later = trial(3, 5, 4);
  later.attempt = 1;
  write_trial(run, later);
  write_trial(run, trial(11, 5, 4));
  write_trial(run, trial(9, 5, 4));
  std::vector<int64_t> seeds;
  for (const TrialResult& result : read_trials(run)) seeds.push_back(result.seed);
  EXPECT_EQ(seeds, (std::vector<int64_t>{9, 11, 3}));
}

TEST_F(TrialTest, WhatIsNoResultIsNamed) {
  write_trial(run, trial(7, 5, 4));
  const std::string whole = read_file(file(7));
  const auto broken = [&](const std::string& text) {
    testing::replace_file(file(7), text);
    const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_trials(run); });
    EXPECT_NE(message.find(file(7).string()), std::string::npos) << message;
    EXPECT_NE(message.find("remove its folder"), std::string::npos) << message;
    return message;
  };
  broken("");
  broken(whole.substr(0, whole.size() / 2));
  std::string other = whole;
  other.replace(other.find("\"step\""), 6, "\"stop\"");
  EXPECT_NE(broken(other).find("step"), std::string::npos);
  other = whole;
  other.replace(other.find("\"seed\": 7"), 9, "\"seed\": 8");
  EXPECT_NE(broken(other).find("seed 8"), std::string::npos);
  other = whole;
  other.replace(other.find("\"tokens\": 512"), 13, "\"tokens\": -5 ");
  EXPECT_NE(broken(other).find("out of range"), std::string::npos);
}

TEST(Trial, HasConvergedWhenItsLossHasFallen) {
  EXPECT_TRUE(trial(1, 5.0, 4.0).converged());
  EXPECT_FALSE(trial(1, 5.0, 5.0).converged());
  EXPECT_FALSE(trial(1, 5.0, std::nullopt).converged()) << "not finite at the end";
  EXPECT_TRUE(trial(1, std::nullopt, std::nullopt).converged()) << "no held-out text";
  TrialResult diverged = trial(1, 5.0, 4.0);
  diverged.diverged = true;
  EXPECT_FALSE(diverged.converged());
}

TEST(Trial, TheBestHasTheLowestLossAndOfEqualOnesIsTheFirst) {
  TrialResult diverged = trial(1, 5, 1);
  diverged.diverged = true;
  EXPECT_FALSE(best_trial({}));
  EXPECT_FALSE(best_trial({diverged, trial(2, 5, std::nullopt)}));
  EXPECT_EQ(best_trial({diverged, trial(2, 5, 4), trial(3, 5, 3), trial(4, 5, 3)})->seed, 3);
  EXPECT_EQ(best_trial({trial(2, std::nullopt, std::nullopt), trial(3, {}, {})})->seed, 2);
}

TEST(Trial, TheTableMarksTheBestAndSaysTheSpread) {
  TrialResult diverged = trial(3, 5, std::nullopt);
  diverged.diverged = true;
  diverged.reason = "spikes";
  const std::string table = trial_table({trial(1, 5, 4.5), trial(2, 5, 3.5), diverged}, 2);
  EXPECT_EQ(table,
            "  trial                steps      tokens       held-out loss\n"
            "  seed 1               4          512          4.5000       \n"
            "  seed 2               4          512          3.5000        goes on\n"
            "  seed 3               4          512          -             diverged: spikes\n"
            "  mean 4.0000, standard deviation 0.7071, from 3.5000 to 4.5000");
}

TEST(Trial, TheOrderOfDataStaysWhereOnlyTheWeightsVary) {
  Config config;
  config.seed = 5;
  config.restart.vary = RestartVary::kInit;
  EXPECT_EQ(config_of_seed(config, 9).seed, 9);
  EXPECT_EQ(config_of_seed(config, 9).data_seed(), config.data_seed());
  config.restart.vary = RestartVary::kAll;
  EXPECT_EQ(config_of_seed(config, 9).data_seed(), 9);
}

}  // namespace
}  // namespace lmtrain
