#include "model/generate.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::LlamaCase;

class GenerateTest : public ::testing::Test {
 protected:
  std::vector<int32_t> run(const GenerateOptions& options) {
    return generate(llama_, prompt_, options, [](int32_t) { return true; });
  }
  // The distribution of the token after `ids`.
  std::vector<double> next(const std::vector<int64_t>& ids, double temperature = 1.0) {
    const at::Tensor logits = llama_.logits(at::tensor(ids).unsqueeze(0))[0].select(0, -1);
    const at::Tensor p = at::softmax(logits.to(at::kDouble) / temperature, -1);
    return {p.data_ptr<double>(), p.data_ptr<double>() + p.numel()};
  }
  // How often each first token comes, over as many seeds.
  std::map<int32_t, int> first_tokens(GenerateOptions options, int seeds) {
    options.max_tokens = 1;
    std::map<int32_t, int> counts;
    for (options.seed = 0; options.seed < seeds; ++options.seed) ++counts[run(options).at(0)];
    return counts;
  }

  LlamaCase golden_{"gqa_untied"};
  Llama llama_ = golden_.llama(CompileMode::kScript);
  std::vector<int32_t> prompt_ = {1, 5, 9, 33};
};

GenerateOptions greedy(int64_t max_tokens) {
  GenerateOptions options;
  options.temperature = 0;
  options.max_tokens = max_tokens;
  return options;
}

TEST_F(GenerateTest, GreedyTakesTheLikeliestEachTime) {
  const std::vector<int32_t> tokens = run(greedy(12));
  ASSERT_EQ(tokens.size(), 12U);
  std::vector<int64_t> context(prompt_.begin(), prompt_.end());
  for (const int32_t token : tokens) {
    const std::vector<double> p = next(context);
    EXPECT_EQ(token, std::max_element(p.begin(), p.end()) - p.begin());
    context.push_back(token);
  }
  GenerateOptions other_seed = greedy(12);
  other_seed.seed = 99;
  EXPECT_EQ(run(other_seed), tokens);
}

TEST_F(GenerateTest, SamplingIsAFunctionOfTheSeed) {
  GenerateOptions options;
  options.max_tokens = 30;
  options.temperature = 1.5;
  options.top_p = 1.0;
  options.seed = 4;
  const std::vector<int32_t> tokens = run(options);
  EXPECT_EQ(tokens.size(), 30U);
  EXPECT_EQ(run(options), tokens);
  options.seed = 5;
  EXPECT_NE(run(options), tokens);
  // Token i does not depend on how many are asked for.
  options.seed = 4;
  options.max_tokens = 10;
  EXPECT_EQ(run(options), std::vector<int32_t>(tokens.begin(), tokens.begin() + 10));
}

TEST_F(GenerateTest, TokensComeAsOftenAsTheModelSays) {
  constexpr int kSeeds = 3000;
  for (const double temperature : {1.0, 0.5}) {
    GenerateOptions options;
    options.temperature = temperature;
    options.top_p = 1.0;
    const std::map<int32_t, int> counts = first_tokens(options, kSeeds);
    const std::vector<double> p = next({1, 5, 9, 33}, temperature);
    double chi_square = 0;
    for (size_t token = 0; token < p.size(); ++token) {
      const auto found = counts.find(static_cast<int32_t>(token));
      const double expected = p[token] * kSeeds;
      const double seen = found == counts.end() ? 0 : found->second;
      chi_square += (seen - expected) * (seen - expected) / expected;
    }
    // 66 degrees of freedom: mean 66, deviation 11.5.
    EXPECT_LT(chi_square, 66 + 5 * 11.5) << "temperature " << temperature;
  }
}

TEST_F(GenerateTest, TopPKeepsTheLikeliestTokensThatReachIt) {
  const std::vector<double> p = next({1, 5, 9, 33});
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)];
  });
  for (const double top_p : {0.0, 0.05, 0.2}) {
    std::set<int32_t> nucleus;
    double total = 0;
    for (const int32_t token : order) {
      nucleus.insert(token);
      total += p[static_cast<size_t>(token)];
      if (total >= top_p) break;
    }
    GenerateOptions options;
    options.temperature = 1.0;
    options.top_p = top_p;
    std::set<int32_t> drawn;
    for (const auto& [token, count] : first_tokens(options, 500)) drawn.insert(token);
    EXPECT_EQ(drawn, nucleus) << "top_p " << top_p;
  }
}

TEST_F(GenerateTest, EndsAtTheStopTokenWithoutReturningIt) {
  const std::vector<int32_t> tokens = run(greedy(8));
  GenerateOptions options = greedy(8);
  options.stop_id = tokens[3];
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[3]);
  EXPECT_EQ(run(options), std::vector<int32_t>(tokens.begin(), first));
}

TEST_F(GenerateTest, TellsEveryTokenAndEndsWhenTold) {
  const std::vector<int32_t> tokens = run(greedy(8));
  std::vector<int32_t> seen;
  const std::vector<int32_t> returned = generate(llama_, prompt_, greedy(8), [&](int32_t token) {
    seen.push_back(token);
    return seen.size() < 5;
  });
  EXPECT_EQ(seen, std::vector<int32_t>(tokens.begin(), tokens.begin() + 5));
  EXPECT_EQ(returned, seen);
  EXPECT_TRUE(run(greedy(0)).empty());
}

TEST_F(GenerateTest, AContextBeyondTheLongestLosesItsOldestTokens) {
  Llama short_one(golden_.config, golden_.parameters, 4, CompileMode::kScript);
  const std::vector<int32_t> prompt = {1, 8, 20, 41, 5, 9, 33};
  const std::vector<int32_t> tokens =
      generate(short_one, prompt, greedy(6), [](int32_t) { return true; });
  ASSERT_EQ(tokens.size(), 6U);
  std::vector<int64_t> context(prompt.begin(), prompt.end());
  for (const int32_t token : tokens) {
    const std::vector<double> p = next({context.end() - 4, context.end()});
    EXPECT_EQ(token, std::max_element(p.begin(), p.end()) - p.begin());
    context.push_back(token);
  }
}

}  // namespace
}  // namespace lmtrain
