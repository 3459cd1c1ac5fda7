#include "eval/evaluate.h"

#include <numeric>

#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::random_ids;
using testing::TinyModel;

struct Corpus {
  // Documents of these many tokens; document i has 10 + i raw bytes.
  explicit Corpus(const std::vector<int64_t>& sizes) {
    TokenShardWriter writer(folder / "documents.bin", testing::kTinyVocabulary);
    for (size_t i = 0; i < sizes.size(); ++i) {
      documents.push_back(random_ids(sizes[i], i));
      writer.add_document(documents.back(), 10 + i);
    }
    writer.finish();
    shard.emplace(folder / "documents.bin", /*verify_tokens=*/true);
  }

  testing::TemporaryFolder folder;
  std::vector<std::vector<int32_t>> documents;
  std::optional<TokenShard> shard;
};

bool always() { return true; }

// One window of one document at a time, from the logits, in double precision.
double nats_by_hand(TinyModel& model, const std::vector<int32_t>& ids, int64_t max_length) {
  double nats = 0;
  const auto last = static_cast<int64_t>(ids.size()) - 1;
  for (int64_t begin = 0; begin < last; begin += max_length) {
    const int64_t length = std::min(max_length, last - begin);
    const at::Tensor inputs = at::empty({1, length}, at::kLong);
    for (int64_t i = 0; i < length; ++i) {
      inputs.data_ptr<int64_t>()[i] = ids[static_cast<size_t>(begin + i)];
    }
    const at::Tensor log_probabilities =
        at::log_softmax(model.llama.logits(inputs)[0].to(at::kDouble), -1);
    for (int64_t i = 0; i < length; ++i) {
      nats -= log_probabilities[i][ids[static_cast<size_t>(begin + i + 1)]].item<double>();
    }
  }
  return nats;
}

TEST(Evaluate, EqualsASumByHandWhateverTheBatch) {
  // Empty, a lone token (no target), one target, exact windows, one more, and long ones.
  const Corpus corpus({0, 1, 2, 9, 16, 17, 18, 33, 34, 50, 3, 2, 100});
  TinyModel model;
  for (const int64_t max_length : {1, 5, 16}) {
    double nats = 0;
    int64_t targets = 0;
    for (const auto& ids : corpus.documents) {
      nats += nats_by_hand(model, ids, max_length);
      targets += std::max<int64_t>(0, static_cast<int64_t>(ids.size()) - 1);
    }
    for (const int64_t batch_tokens : {1, 16, 40, 8192}) {
      const auto result =
          evaluate(model.llama, *corpus.shard, {}, {max_length, batch_tokens, 0}, always);
      ASSERT_TRUE(result.has_value());
      EXPECT_NEAR(result->all.nats, nats, 1e-5 * nats) << max_length << " " << batch_tokens;
      EXPECT_EQ(result->all.tokens, targets);
      EXPECT_EQ(result->all.documents, 13);
      EXPECT_EQ(result->all.bytes, 13 * 10 + 12 * 13 / 2);
      EXPECT_DOUBLE_EQ(result->all.loss(), result->all.nats / static_cast<double>(targets));
      EXPECT_DOUBLE_EQ(result->all.bits_per_byte(),
                       result->all.nats / (std::log(2.0) * static_cast<double>(result->all.bytes)));
    }
  }
}

TEST(Evaluate, BudgetTakesWholeDocumentsFromTheFirst) {
  const Corpus corpus({11, 21, 31, 41});  // 10, 20, 30, 40 targets
  TinyModel model;
  const std::vector<std::pair<int64_t, int64_t>> budgets = {
      {1, 10}, {10, 10}, {11, 30}, {30, 30}, {31, 60}, {60, 60}, {100, 100}, {1000, 100}, {0, 100}};
  for (const auto& [budget, targets] : budgets) {
    const auto result = evaluate(model.llama, *corpus.shard, {}, {16, 64, budget}, always);
    EXPECT_EQ(result->all.tokens, targets) << budget;
    EXPECT_EQ(evaluation_targets(*corpus.shard, budget, {}), targets) << budget;
  }
}

// Losses of targets are added in fp64: the figures of parts do not move the sum, and are parts of
// it.
TEST(Evaluate, ItsSumIsThatOfItsTargets) {
  const Corpus corpus({12, 12, 12, 12, 9, 9, 17, 40});
  TinyModel model;
  const EvalSets sets{{"a", "b"}, {0, 1, 0, 1, 0, 1, 0, 1}, false};
  const double nats = evaluate(model.llama, *corpus.shard, {}, {16, 66, 0}, always)->all.nats;
  const auto result = evaluate(model.llama, *corpus.shard, sets, {16, 66, 0}, always);
  EXPECT_EQ(result->all.nats, nats);
  EXPECT_NEAR(result->sets.at(0).result.nats + result->sets.at(1).result.nats, nats, 1e-13 * nats);
}

TEST(Evaluate, SetsAndLengthsArePartsOfTheWhole) {
  const Corpus corpus({1, 6, 9, 10, 17, 18, 40, 5});  // 0, 5, 8, 9, 16, 17, 39, 4 targets
  TinyModel model;
  const EvalSets sets{{"none", "odd", "even"}, {2, 1, 2, 1, 2, 1, 2, 1}, false};
  const auto check = [&](const EvalPart& part, const std::string& name,
                         const std::vector<size_t>& documents, int64_t targets) {
    EXPECT_EQ(part.name, name);
    EXPECT_EQ(part.result.tokens, targets) << name;
    EXPECT_EQ(part.result.documents, std::ssize(documents)) << name;
    double nats = 0;
    int64_t bytes = 0;
    for (const size_t document : documents) {
      nats += nats_by_hand(model, corpus.documents[document], 16);
      bytes += 10 + static_cast<int64_t>(document);
    }
    EXPECT_NEAR(part.result.nats, nats, 1e-5 * nats) << name;
    EXPECT_EQ(part.result.bytes, bytes) << name;
  };
  for (const int64_t batch_tokens : {1, 40, 8192}) {
    const auto result =
        evaluate(model.llama, *corpus.shard, sets,
                 {.max_length = 16, .batch_tokens = batch_tokens, .min_length = 5}, always);
    ASSERT_EQ(result->sets.size(), 2U);  // "none" has no target
    check(result->sets[0], "odd", {1, 3, 5, 7}, 35);
    check(result->sets[1], "even", {0, 2, 4, 6}, 63);
    ASSERT_EQ(result->lengths.size(), 2U);
    check(result->lengths[0], "length_8", {0, 1, 2, 7}, 17);
    check(result->lengths[1], "length_16", {3, 4, 5, 6}, 81);
    EXPECT_NEAR(result->sets[0].result.nats + result->sets[1].result.nats, result->all.nats, 1e-4);
  }
}

TEST(Evaluate, EachNamedSetHasItsPartOfTheBudget) {
  const Corpus corpus({41, 41, 41, 41, 5, 5, 41, 41});
  TinyModel model;
  const EvalSets sets{{"large", "small"}, {0, 0, 0, 0, 1, 1, 0, 0}, true};
  const auto result = evaluate(model.llama, *corpus.shard, sets, {16, 64, 64}, always);
  ASSERT_EQ(result->sets.size(), 2U);
  EXPECT_EQ(result->sets[0].result.documents, 2);
  EXPECT_EQ(result->sets[1].result.documents, 2);  // at least 64 / 4 / 2 = 8 targets
  EXPECT_EQ(evaluation_targets(*corpus.shard, 64, sets), 88);
}

TEST(Evaluate, GivesUpWhenAsked) {
  const Corpus corpus({40, 40, 40});
  TinyModel model;
  int batches = 0;
  const auto stop_at_third = [&] { return ++batches < 3; };
  EXPECT_FALSE(evaluate(model.llama, *corpus.shard, {}, {16, 16, 0}, stop_at_third).has_value());
  EXPECT_EQ(batches, 3);
}

TEST(Evaluate, NothingToPredict) {
  const Corpus corpus({1, 0, 1});
  TinyModel model;
  const auto result = evaluate(model.llama, *corpus.shard, {}, {16, 16, 0}, always);
  EXPECT_EQ(result->all.tokens, 0);
  EXPECT_TRUE(std::isnan(result->all.loss()));
}

TEST(Evaluate, PrecisionIsFp32OnACpuAndThatOfTheWorkingWeightsOnAGpu) {
  const at::Device gpu(at::kCUDA, 0);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool fp8 : {false, true}) {
      EXPECT_EQ(evaluation_precision({dtype, fp8}, at::kCPU).dtype, at::kFloat);
      EXPECT_EQ(evaluation_precision({dtype, fp8}, gpu).dtype, dtype);
      EXPECT_FALSE(evaluation_precision({dtype, fp8}, gpu).fp8);
    }
  }
}

// libtorch tells cuBLAS so while an evaluation is under way, and no longer.
TEST(Evaluate, SumsOfProductsStayInFp32) {
  const Corpus corpus({9, 5});
  TinyModel model;
  at::Context& context = at::globalContext();
  using Option = at::CuBLASReductionOption;
  ASSERT_EQ(context.allowBF16ReductionCuBLAS(), Option::AllowReducedPrecisionWithSplitK);
  int asked = 0;
  evaluate(model.llama, *corpus.shard, {}, {}, [&] {
    ++asked;
    EXPECT_EQ(context.allowBF16ReductionCuBLAS(), Option::DisallowReducedPrecisionAllowSplitK);
    EXPECT_EQ(context.allowFP16ReductionCuBLAS(), Option::DisallowReducedPrecisionAllowSplitK);
    return true;
  });
  EXPECT_GT(asked, 0);
  EXPECT_EQ(context.allowBF16ReductionCuBLAS(), Option::AllowReducedPrecisionWithSplitK);
  EXPECT_EQ(context.allowFP16ReductionCuBLAS(), Option::AllowReducedPrecisionWithSplitK);
}

}  // namespace
}  // namespace lmtrain
