#include "checkpoint/trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/support.h"
#include "formats/strict_json.h"

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
  "checksum": "df9da5d3",
  "continued": true,
  "diverged": true,
  "eval_loss": 0.3333333333333333,
  "fingerprint": "8c1f",
  "first_eval_loss": 5.5,
  "reason": "the loss \"spiked\"",
  "seed": 1339,
  "step": 4,
  "tokens": 512
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
}

TEST_F(TrialTest, AReasonThatIsNotUtf8IsWrittenAndReadBack) {
  TrialResult result = trial(7, 5, 4);
  result.reason = "the batch is kept in \xFFtemp";
  write_trial(run, result);
  EXPECT_EQ(read_trials(run).at(0).reason, "the batch is kept in \uFFFDtemp");
}

TEST_F(TrialTest, AnyFlippedBitIsFoundOrHarmless) {
  TrialResult result = trial(7, 5.25, 4.125);
  result.fingerprint = "51ab8b8b7027e609c053533520500e1d";
  write_trial(run, result);
  const std::string whole = read_file(file(7));
  size_t found = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string text = whole;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    replace_file(file(7), text);
    try {
      const TrialResult read = read_trials(run).at(0);
      EXPECT_TRUE(read.seed == 7 && read.loss == result.loss && read.step == result.step &&
                  read.first_loss == result.first_loss && read.fingerprint == result.fingerprint &&
                  read.diverged == result.diverged && read.continued == result.continued)
          << "bit " << bit;
    } catch (const Error& error) {
      ++found;
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint) << error.what();
      EXPECT_NE(std::string(error.what()).find(file(7).string()), std::string::npos);
    }
  }
  EXPECT_GT(found, 7 * whole.size());
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
  broken("[]");
  broken(whole.substr(0, whole.size() / 2));
  nlohmann::json fields = nlohmann::json::parse(whole);
  fields["step"] = 5;
  EXPECT_NE(broken(fields.dump()).find("checksum"), std::string::npos);
  fields.erase("checksum");
  EXPECT_NE(broken(fields.dump()).find("checksum"), std::string::npos);
  const auto broken_with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json other = fields;
    other[key] = value;
    return broken(checked_json_text(other));
  };
  EXPECT_NE(broken_with("step", "5").find("not the result of a trial"), std::string::npos);
  EXPECT_NE(broken_with("seed", 8).find("seed 8"), std::string::npos);
  EXPECT_NE(broken_with("tokens", -5).find("out of range"), std::string::npos);
  fields.erase("step");
  EXPECT_NE(broken(checked_json_text(fields)).find("step"), std::string::npos);
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
