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
    return generate(llama_, prompt_, options, [](int32_t) { return true; }).tokens;
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

TEST_F(GenerateTest, TopKKeepsTheLikeliestTokens) {
  const std::vector<double> p = next({1, 5, 9, 33});
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)];
  });
  const auto drawn = [&](int64_t top_k, double top_p) {
    GenerateOptions options;
    options.temperature = 1.0;
    options.top_k = top_k;
    options.top_p = top_p;
    std::set<int32_t> tokens;
    for (const auto& [token, count] : first_tokens(options, 500)) tokens.insert(token);
    return tokens;
  };
  EXPECT_EQ(drawn(4, 1.0), std::set<int32_t>(order.begin(), order.begin() + 4));
  // The nucleus is one of the probabilities among these four: of a half of theirs, not of all.
  double four = 0, half = 0;
  for (int i = 0; i < 4; ++i) four += p[static_cast<size_t>(order[static_cast<size_t>(i)])];
  std::set<int32_t> nucleus;
  for (size_t i = 0; half < four / 2; ++i) {
    half += p[static_cast<size_t>(order[i])];
    nucleus.insert(order[i]);
  }
  EXPECT_LT(nucleus.size(), 4U);
  EXPECT_EQ(drawn(4, 0.5), nucleus);
  // More than there are is all of them.
  GenerateOptions all;
  GenerateOptions many;
  many.top_k = 1000;
  EXPECT_EQ(run(all), run(many));
}

// The logits of transformers' RepetitionPenaltyLogitsProcessor: those of tokens that are there are
// divided by the penalty if they are above 0, else multiplied.
TEST_F(GenerateTest, RepeatedTokensHaveThePenaltyOfTransformers) {
  for (const double penalty : {1.3, 0.8}) {
    GenerateOptions options = greedy(20);
    options.repetition_penalty = penalty;
    const std::vector<int32_t> tokens = run(options);
    std::vector<int64_t> context(prompt_.begin(), prompt_.end());
    for (const int32_t token : tokens) {
      at::Tensor logits = llama_.logits(at::tensor(context).unsqueeze(0))[0].select(0, -1).clone();
      const at::Tensor seen = at::tensor(context);
      const at::Tensor score = logits.gather(0, seen);
      logits.scatter_(0, seen, at::where(score < 0, score * penalty, score / penalty));
      EXPECT_EQ(token, logits.argmax().item<int64_t>());
      context.push_back(token);
    }
    EXPECT_NE(tokens, run(greedy(20))) << penalty << ": nothing to see";
  }
}

TEST_F(GenerateTest, EndsAtTheStopTokenWithoutReturningIt) {
  const std::vector<int32_t> tokens = run(greedy(8));
  GenerateOptions options = greedy(8);
  options.stop_ids = {-1, tokens[3]};
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[3]);
  const Continuation text = generate(llama_, prompt_, options, [](int32_t) { return true; });
  EXPECT_EQ(text.tokens, std::vector<int32_t>(tokens.begin(), first));
  EXPECT_EQ(text.end, GenerateEnd::kStopToken);
}

// The model has 67 rows.
TEST_F(GenerateTest, DrawsOnlyIdsThatTheTokenizerHas) {
  GenerateOptions options;
  options.temperature = 100;
  options.top_p = 1;
  options.max_tokens = 60;
  const auto largest = [&] {
    const std::vector<int32_t> tokens = run(options);
    return *std::max_element(tokens.begin(), tokens.end());
  };
  EXPECT_GE(largest(), 20) << "nothing to see";
  options.num_ids = 20;
  EXPECT_LT(largest(), 20);
  options.temperature = 0;
  EXPECT_LT(largest(), 20);
}

// The likeliest token alone has a logit of 0 then, and all others -inf.
TEST_F(GenerateTest, TheLowestTemperatureTakesTheLikeliest) {
  GenerateOptions options = greedy(8);
  options.temperature = 1e-310;
  EXPECT_EQ(run(options), run(greedy(8)));
}

TEST_F(GenerateTest, TellsEveryTokenAndEndsWhenTold) {
  const std::vector<int32_t> tokens = run(greedy(8));
  std::vector<int32_t> seen;
  const Continuation returned = generate(llama_, prompt_, greedy(8), [&](int32_t token) {
    seen.push_back(token);
    return seen.size() < 5;
  });
  EXPECT_EQ(seen, std::vector<int32_t>(tokens.begin(), tokens.begin() + 5));
  EXPECT_EQ(returned.tokens, seen);
  EXPECT_EQ(returned.end, GenerateEnd::kCaller);
  EXPECT_TRUE(run(greedy(0)).empty());
}

// The last token that the model can draw is the one after its last position.
TEST_F(GenerateTest, EndsWhereTheModelHasNoMorePositions) {
  Llama short_one(golden_.config, golden_.parameters, 10, CompileMode::kScript);
  const auto continued = [&](int64_t prompt_length, int64_t max_tokens) {
    std::vector<int32_t> prompt = {1, 8, 20, 41, 5, 9, 33, 12, 2, 7};
    prompt.resize(static_cast<size_t>(prompt_length));
    return generate(short_one, prompt, greedy(max_tokens), [](int32_t) { return true; });
  };
  for (const int64_t length : {1, 7, 10}) {
    const Continuation text = continued(length, 50);
    EXPECT_EQ(text.tokens.size(), static_cast<size_t>(11 - length));
    EXPECT_EQ(text.end, GenerateEnd::kMaxLength);
    EXPECT_EQ(continued(length, 11 - length).end, GenerateEnd::kMaxTokens);
  }
}

// More prompts than rows, of different lengths, that end at different times.
TEST_F(GenerateTest, SeveralPromptsAreContinuedAsEachAlone) {
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 9; ++i) {
    prompts.emplace_back();
    for (int32_t j = 0; j <= i * 5 % 11; ++j) prompts.back().push_back((7 * i + 13 * j) % 67);
  }
  GenerateOptions options;
  options.max_tokens = 40;
  options.temperature = 1.0;
  options.seed = 3;
  options.stop_ids = {11};
  std::vector<Continuation> alone;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions of_prompt = options;
    of_prompt.seed += static_cast<int64_t>(i);
    alone.push_back(generate(llama_, prompts[i], of_prompt, [](int32_t) { return true; }));
  }
  for (const int64_t rows : {1, 2, 4, 20}) {
    std::map<size_t, Continuation> ended;
    std::map<size_t, std::vector<int32_t>> told;
    generate_all(
        llama_, prompts, rows, options,
        [&](size_t prompt, int32_t token) {
          told[prompt].push_back(token);
          return true;
        },
        [&](size_t prompt, Continuation text) {
          EXPECT_TRUE(ended.emplace(prompt, std::move(text)).second) << prompt << " ends twice";
        });
    ASSERT_EQ(ended.size(), prompts.size()) << rows;
    std::set<GenerateEnd> ends;
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(ended[i].tokens, alone[i].tokens) << "prompt " << i << " of " << rows << " rows";
      EXPECT_EQ(ended[i].end, alone[i].end);
      EXPECT_EQ(told[i], alone[i].tokens);
      ends.insert(alone[i].end);
    }
    EXPECT_EQ(ends.size(), 2U) << "all end for the same reason";
  }
}

// 20 prompts of transformers' generate, 200 tokens each, alone and several at once.
TEST(GenerateReference, GreedyTokensAreThoseOfTransformers) {
  for (const std::string name : {"gqa_untied", "rope_llama3"}) {
    LlamaCase model(name);
    const nlohmann::json golden =
        testing::read_json(testing::reference_folder("continuations/" + name + ".json"));
    Llama llama(model.config, model.parameters, golden.at("max_position_embeddings"),
                CompileMode::kScript);
    std::vector<std::vector<int32_t>> prompts;
    for (const auto& entry : golden.at("prompts"))
      prompts.push_back(entry.at("prompt").get<std::vector<int32_t>>());
    for (const char* kind : {"greedy", "penalized"}) {
      GenerateOptions options = greedy(200);
      if (kind == std::string("penalized"))
        options.repetition_penalty = golden.at("repetition_penalty");
      for (const int64_t rows : {1, 6}) {
        size_t ended = 0;
        generate_all(
            llama, prompts, rows, options, [](size_t, int32_t) { return true; },
            [&](size_t prompt, const Continuation& text) {
              ++ended;
              EXPECT_EQ(text.tokens,
                        golden.at("prompts")[prompt].at(kind).get<std::vector<int32_t>>())
                  << name << " " << kind << " prompt " << prompt << ", " << rows << " rows";
            });
        EXPECT_EQ(ended, 20U);
      }
    }
  }
}

TEST_F(GenerateTest, AllPromptsEndWhenTold) {
  size_t tokens = 0, ends = 0;
  generate_all(
      llama_, {{1}, {2}, {3}, {4}}, 2, greedy(10), [&](size_t, int32_t) { return ++tokens < 7; },
      [&](size_t, const Continuation& text) {
        EXPECT_EQ(text.end, GenerateEnd::kCaller);
        ++ends;
      });
  EXPECT_EQ(tokens, 7U);
  EXPECT_EQ(ends, 1U);
}

}  // namespace
}  // namespace lmtrain
