#include "eval/score_rows.h"

#include <gtest/gtest.h>

#include "base/support.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::random_ids;
using testing::TinyModel;

bool always(size_t /*done*/) { return true; }

// From the logits of the row alone, in double precision.
void expect_score_by_hand(TinyModel& model, const ScoredRow& row, const RowScore& score) {
  const auto inputs = static_cast<int64_t>(row.ids.size()) - 1;
  const at::Tensor ids = at::empty({1, inputs}, at::kLong);
  std::copy(row.ids.begin(), row.ids.end() - 1, ids.data_ptr<int64_t>());
  const at::Tensor logits = model.llama.logits(ids)[0].to(at::kDouble);
  const at::Tensor log_probabilities = at::log_softmax(logits, -1);
  ASSERT_EQ(static_cast<int64_t>(score.log_probabilities.size()), row.num_scored);
  bool is_greedy = true;
  for (int64_t i = 0; i < row.num_scored; ++i) {
    const int64_t position = inputs - row.num_scored + i;
    const int64_t target = row.ids[static_cast<size_t>(position + 1)];
    EXPECT_NEAR(score.log_probabilities[static_cast<size_t>(i)],
                log_probabilities[position][target].item<double>(), 1e-5);
    is_greedy = is_greedy && logits[position].argmax().item<int64_t>() == target;
  }
  EXPECT_EQ(score.is_greedy, is_greedy);
}

// Rows of every length, some with the same inputs, some whose end the model itself would write.
std::vector<ScoredRow> many_rows(TinyModel& model) {
  std::vector<ScoredRow> rows;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto size = static_cast<int64_t>(2 + seed * 7 % 16);
    rows.push_back({random_ids(size, seed), 1 + static_cast<int64_t>(seed) % (size - 1)});
    if (seed % 3 != 0) continue;
    ScoredRow other = rows.back();
    other.ids.back() = (other.ids.back() + 1) % 50;
    other.num_scored = 1;
    rows.push_back(other);
    const at::Tensor ids = at::empty({1, size - 1}, at::kLong);
    std::copy(other.ids.begin(), other.ids.end() - 1, ids.data_ptr<int64_t>());
    other.ids.back() =
        static_cast<int32_t>(model.llama.logits(ids)[0][-1].argmax().item<int64_t>());
    rows.push_back(other);
  }
  return rows;
}

TEST(ScoreRows, EqualsTheRowsOneByOneWhateverTheBatch) {
  TinyModel model;
  const std::vector<ScoredRow> rows = many_rows(model);
  int64_t greedy = 0;
  for (const int64_t batch_tokens : {1, 40, 8192}) {
    const auto scores = score_rows(model.llama, rows, batch_tokens, always);
    ASSERT_TRUE(scores.has_value());
    ASSERT_EQ(scores->size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      expect_score_by_hand(model, rows[i], (*scores)[i]);
      greedy += (*scores)[i].is_greedy ? 1 : 0;
    }
  }
  EXPECT_GE(greedy, 3 * 14) << "the rows that the model would write";
}

// With a batch of one row, each call of the model is a batch.
TEST(ScoreRows, RowsWithTheSameInputsAreComputedOnce) {
  TinyModel model;
  std::vector<ScoredRow> rows;
  for (int32_t last = 0; last < 10; ++last) rows.push_back({{5, 6, 7, last}, 1 + last % 3});
  rows.push_back({{5, 6, 8, 0}, 1});
  int batches = 0;
  const auto scores = score_rows(model.llama, rows, /*batch_tokens=*/1, [&](size_t) {
    ++batches;
    return true;
  });
  EXPECT_EQ(batches, 2);
  for (size_t i = 0; i < rows.size(); ++i) expect_score_by_hand(model, rows[i], scores->at(i));
}

TEST(ScoreRows, StopsWhenAsked) {
  TinyModel model;
  const std::vector<ScoredRow> rows = many_rows(model);
  std::vector<size_t> calls;
  const auto stop_at_third = [&](size_t done) {
    calls.push_back(done);
    return calls.size() < 3;
  };
  EXPECT_FALSE(score_rows(model.llama, rows, 32, stop_at_third).has_value());
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0], 0U);
  EXPECT_LT(calls[1], calls[2]);
  EXPECT_TRUE(score_rows(model.llama, {}, 32, always)->empty());
}

TEST(ScoreRows, WeightsThatAreNotFiniteAreANumericError) {
  TinyModel model;
  model.parameters.master().fill_(NAN);
  model.parameters.refresh_working();
  const std::vector<ScoredRow> rows = {{{1, 2, 3}, 1}};
  const std::string message =
      testing::error_of(ErrorKind::kNumeric, [&] { score_rows(model.llama, rows, 32, always); });
  EXPECT_NE(message.find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace lmtrain
