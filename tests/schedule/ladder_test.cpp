#include "schedule/ladder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "config/model_family.h"
#include "schedule/loss_law.h"

namespace lmtrain {
namespace {

LadderSpec spec_of(double parameters, double tokens) {
  LadderSpec spec = {.vocab_size = 8192,
                     .max_length = 512,
                     .tokens = tokens,
                     .text_tokens = 1e12,
                     .evaluation_tokens = 8192};
  spec.model.tie_word_embeddings = false;
  set_size(spec.model, spec.vocab_size, parameters);
  return spec;
}

TEST(Ladder, CostsAtMostWhatMayBeSpent) {
  for (const double spend : {0.05, 0.1, 0.3}) {
    LadderSpec spec = spec_of(124e6, 2.5e9);
    spec.spend = spend;
    const double run = token_cost(spec.model, spec.vocab_size, spec.max_length) * spec.tokens;
    double sum = 0, largest = 0;
    std::set<std::string> names;
    for (const Rung& rung : choose_ladder(spec)) {
      sum += rung.cost;
      largest = std::max(largest, rung.cost);
      names.insert(rung.name);
      EXPECT_GE(rung.tokens, 32 * spec.max_length);
      // The tokens cost what the rung says, evaluations beside them.
      ModelConfig model = spec.model;
      set_size(model, spec.vocab_size, rung.parameters);
      EXPECT_DOUBLE_EQ(count_multiplied(model, spec.vocab_size), rung.multiplied);
      const double training =
          static_cast<double>(rung.tokens) * token_cost(model, spec.vocab_size, spec.max_length);
      EXPECT_LT(training, rung.cost);
      EXPECT_GT(training, 0.5 * rung.cost);  // the rest is for evaluations
    }
    EXPECT_LE(sum, spend * run);
    EXPECT_GT(sum, 0.9 * spend * run);
    EXPECT_GT(largest, 0.4 * spend * run);  // it tells most about the run
    EXPECT_EQ(names.size(), 17U);           // nine, and eight of other rates
  }
}

TEST(Ladder, TellsSizeAndTokensApart) {
  const std::vector<Rung> rungs = choose_ladder(spec_of(124e6, 2.5e9));
  // Tokens for each parameter differ by a factor of ten and more, and some have two seeds.
  double least = 1e9, most = 0;
  int seeds = 0;
  for (const Rung& rung : rungs) {
    const double ratio = static_cast<double>(rung.tokens) / rung.multiplied;
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    seeds += rung.seed > 0 && rung.lr_factor == 1 ? 1 : 0;
  }
  EXPECT_GT(most / least, 10);
  EXPECT_EQ(seeds, 2);
}

// Each rung of other rates has a rung beside it that differs in the rates alone.
TEST(Ladder, OtherRatesAreTriedAtTheSmallestRungs) {
  const std::vector<Rung> rungs = choose_ladder(spec_of(124e6, 2.5e9));
  std::map<double, int> pairs;
  double cost = 0, sum = 0, middle = 0;
  for (const Rung& rung : rungs) middle = std::max(middle, rung.cost / 20);
  for (const Rung& rung : rungs) {
    sum += rung.cost;
    if (rung.lr_factor == 1) continue;
    cost += rung.cost;
    EXPECT_LT(rung.cost, middle);
    for (const Rung& other : rungs) {
      if (other.lr_factor != 1 || other.seed != rung.seed || other.tokens != rung.tokens) continue;
      EXPECT_EQ(other.parameters, rung.parameters);
      EXPECT_EQ(other.cost, rung.cost);
      EXPECT_EQ(rung.name.find(other.name + "-lr"), 0U) << rung.name;
      ++pairs[rung.lr_factor];
    }
  }
  EXPECT_EQ(pairs, (std::map<double, int>{{0.7, 4}, {1.4, 4}}));
  EXPECT_LT(cost, 0.11 * sum);
}

// A ladder that can pay few rungs, or short ones, spends nothing on other rates.
TEST(Ladder, OtherRatesCostNoRungOfASmallLadder) {
  int with_rates = 0;
  for (double tokens = 400e3; tokens < 2e9; tokens *= 1.3) {
    std::vector<Rung> rungs;
    try {
      rungs = choose_ladder(spec_of(1e6, tokens));
    } catch (const Error&) {
      continue;
    }
    int sizes = 0, rates = 0;
    for (const Rung& rung : rungs) {
      rates += rung.lr_factor != 1 ? 1 : 0;
      sizes += rung.lr_factor == 1 && rung.seed == 0 ? 1 : 0;
    }
    EXPECT_GE(sizes, kLeastRungs) << tokens;
    if (rates > 0) {
      EXPECT_GE(sizes, 6) << tokens;
      EXPECT_GE(rungs.front().tokens, 1'000'000) << tokens;
    }
    with_rates += rates > 0 ? 1 : 0;
  }
  EXPECT_GT(with_rates, 3);
}

TEST(Ladder, SeveralPassesAreSeen) {
  LadderSpec spec = spec_of(30e6, 600e6);
  spec.text_tokens = 60e6;
  int64_t without = 0, with = 0;
  for (const Rung& rung : choose_ladder(spec_of(30e6, 600e6)))
    without = std::max(without, rung.tokens);
  for (const Rung& rung : choose_ladder(spec)) with = std::max(with, rung.tokens);
  EXPECT_GT(with, 1.2 * static_cast<double>(without));
}

// A rung has kSettledSteps where the run pays for them.
TEST(Ladder, ARungHasSettledWhereTheRunPaysForIt) {
  LadderSpec spec = spec_of(4e6, 30e6);
  spec.evaluation_tokens = 1000;
  for (const Rung& rung : choose_ladder(spec)) {
    EXPECT_GE(rung.tokens, 1'000'000) << rung.name;
  }
  spec.batch_tokens = 4096;
  spec.tokens = 300e6;
  for (const Rung& rung : choose_ladder(spec)) {
    EXPECT_GE(rung.tokens, kSettledSteps * 4096) << rung.name;
  }
  spec.tokens = 4e6;  // too short a run for that
  EXPECT_LT(choose_ladder(spec).front().tokens, kSettledSteps * 4096);
}

TEST(Ladder, ASmallRunHasRungsOfTheSmallestModel) {
  LadderSpec spec = spec_of(1e6, 4e6);
  spec.max_length = 64;
  spec.evaluation_tokens = 1000;
  const std::vector<Rung> rungs = choose_ladder(spec);
  EXPECT_GE(rungs.size(), 4U);
  for (const Rung& rung : rungs) EXPECT_GE(rung.tokens, 10'000);
}

TEST(Ladder, IsRefusedWhereFewerThanFourRungsCanBePaid) {
  try {
    choose_ladder(spec_of(1e6, 300e3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("--spend"), std::string::npos);
  }
}

}  // namespace
}  // namespace lmtrain
