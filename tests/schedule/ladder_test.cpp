#include "schedule/ladder.h"

#include <gtest/gtest.h>

#include <cmath>
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
    EXPECT_GT(largest, 0.45 * spend * run);  // it tells most about the run
    EXPECT_EQ(names.size(), 9U);
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
    seeds += rung.seed > 0 ? 1 : 0;
  }
  EXPECT_GT(most / least, 10);
  EXPECT_EQ(seeds, 2);
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
