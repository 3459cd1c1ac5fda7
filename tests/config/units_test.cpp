#include "config/units.h"

#include <gtest/gtest.h>

#include <regex>

#include "base/random.h"

namespace lmtrain {
namespace {

using Unit = TrainingDuration::Unit;

TEST(Units, Tokens) {
  EXPECT_EQ(parse_tokens("10B"), 10'000'000'000);
  EXPECT_EQ(parse_tokens("64Ki"), 65536);
  EXPECT_EQ(parse_tokens("1.5M"), 1'500'000);
  EXPECT_EQ(parse_tokens("2Gi tokens"), int64_t{2} << 30);
  EXPECT_EQ(parse_tokens("12345 tokens"), 12345);
  EXPECT_EQ(parse_tokens("1T"), 1'000'000'000'000);
  for (const char* text : {"", "M", "-1M", "+1M", "1m", "1KB", "1.0001K", "1e3M", "0x10", "inf",
                           "nan", "1 M M", "99999999999T", "1.M M", " 1M", "1M "}) {
    EXPECT_EQ(parse_tokens(text), std::nullopt) << text;
  }
}

TEST(Units, BytesAndTime) {
  EXPECT_EQ(parse_bytes("100MB"), 100'000'000);
  EXPECT_EQ(parse_bytes("1GiB"), int64_t{1} << 30);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("512"), std::nullopt);
  EXPECT_EQ(parse_bytes("1M"), std::nullopt);
  EXPECT_EQ(parse_duration("90s"), 90);
  EXPECT_EQ(parse_duration("30min"), 1800);
  EXPECT_EQ(parse_duration("1.5h"), 5400);
  EXPECT_EQ(parse_duration("1 day"), std::nullopt);
}

TEST(Units, Spans) {
  EXPECT_EQ(parse_training_duration("500 steps"), (TrainingDuration{500, Unit::kSteps}));
  EXPECT_EQ(parse_training_duration("1 step"), (TrainingDuration{1, Unit::kSteps}));
  EXPECT_EQ(parse_training_duration("2%"), (TrainingDuration{2, Unit::kPercent}));
  EXPECT_EQ(parse_training_duration("0.5%"), (TrainingDuration{0.5, Unit::kPercent}));
  EXPECT_EQ(parse_training_duration("1.5 epochs"), (TrainingDuration{1.5, Unit::kEpochs}));
  EXPECT_EQ(parse_training_duration("1 epoch"), (TrainingDuration{1, Unit::kEpochs}));
  EXPECT_EQ(parse_training_duration("10M"), (TrainingDuration{1e7, Unit::kTokens}));
  EXPECT_EQ(parse_training_duration("2h"), (TrainingDuration{7200, Unit::kSeconds}));
  for (const char* text : {"", "500", "101%", "1.5 steps", "2 %%", "MB", "100MB", "five steps"}) {
    EXPECT_EQ(parse_training_duration(text), std::nullopt) << text;
  }
}

// Every suggestion is an amount that the key takes.
TEST(Units, WhatAnAmountWasProbablyMeantToBe) {
  using Words = std::vector<std::string>;
  const std::vector<Unit> all = {Unit::kSteps, Unit::kTokens, Unit::kPercent, Unit::kSeconds,
                                 Unit::kEpochs};
  EXPECT_EQ(similar_training_durations("10m", all), (Words{"10M", "10min"}));
  EXPECT_EQ(similar_training_durations("10m", {Unit::kSteps, Unit::kSeconds}), Words{"10min"});
  EXPECT_EQ(similar_training_durations("5 stepz", all), Words{"5 steps"});
  EXPECT_EQ(similar_training_durations("2 percent", all), Words{"2%"});
  EXPECT_EQ(similar_training_durations("1.5 epoch s", all), Words{"1.5 epochs"});
  EXPECT_EQ(similar_training_durations("3 hours", all), Words{"3h"});
  EXPECT_EQ(similar_tokens("10m"), Words{"10M"});
  EXPECT_EQ(similar_tokens("64ki"), Words{"64Ki"});
  EXPECT_EQ(similar_tokens("1.5 billion"), Words{"1.5B"});
  EXPECT_EQ(similar_tokens("10 MB"), Words{"10M"});
  EXPECT_EQ(similar_bytes("100mb"), Words{"100MB"});
  EXPECT_EQ(similar_bytes("10M"), Words{"10MB"});
  EXPECT_EQ(similar_bytes("10g"), Words{"10GB"});  // not ten bytes
  EXPECT_EQ(similar_tokens("10 bytes"), Words{});  // not ten billion
  EXPECT_EQ(similar_bytes("1 billion"), Words{});  // not one byte
  EXPECT_EQ(similar_durations("10m"), Words{"10min"});
  EXPECT_EQ(similar_durations("10M"), Words{"10min"});
  EXPECT_EQ(similar_durations("90 sec"), Words{"90s"});
  for (const char* text : {"", "m", "10", "10 x", "2 days", "ten minutes"}) {
    EXPECT_EQ(similar_training_durations(text, all), Words{}) << text;
  }
}

TEST(Units, WhatIsWrittenParsesBackToTheSameValue) {
  for (uint64_t i = 0; i < 4000; ++i) {
    const auto draw = [&](uint64_t n) {
      return random_uniform(7, RandomStream::kSample, 4 * i + n);
    };
    TrainingDuration duration;
    duration.unit = static_cast<Unit>(i % 5);
    duration.value = duration.unit == Unit::kPercent   ? 100 * draw(1)
                     : duration.unit == Unit::kSeconds ? 1e6 * draw(1) * draw(2)
                                                       : std::floor(std::pow(2.0, 53 * draw(1)));
    const std::string text = write_training_duration(duration);
    EXPECT_EQ(parse_training_duration(text), duration) << text;
    EXPECT_TRUE(std::regex_match(text, std::regex(training_duration_pattern({duration.unit}))))
        << text;
  }
}

TEST(Units, WritesWhatPeopleWrite) {
  EXPECT_EQ(write_training_duration({20e6, Unit::kTokens}), "20M");
  EXPECT_EQ(write_training_duration({65536, Unit::kTokens}), "64Ki");
  EXPECT_EQ(write_training_duration({1e12, Unit::kTokens}), "1T");
  EXPECT_EQ(write_training_duration({12345, Unit::kTokens}), "12345 tokens");
  EXPECT_EQ(write_training_duration({0, Unit::kTokens}), "0 tokens");
  EXPECT_EQ(write_duration(7200), "2h");
  EXPECT_EQ(write_duration(90), "90s");
  EXPECT_EQ(write_duration(1800), "30min");
}

}  // namespace
}  // namespace lmtrain
