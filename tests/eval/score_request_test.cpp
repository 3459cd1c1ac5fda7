// The answers themselves are compared with lm-eval's in tests/e2e/commands/score_test.cpp.
#include "eval/score_request.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/support.h"
#include "support/source_dir.h"

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

class ScoreRequest : public ::testing::Test {
 protected:
  static constexpr int32_t kBos = 1, kEos = 2;

  ModelText model(int64_t max_length, bool add_bos = true) const {
    return {tokenizer_, add_bos, max_length};
  }
  Ids ids(std::string_view text) const { return tokenizer_.encode(text); }
  // BOS and the ids.
  Ids with_bos(std::string_view text) const {
    Ids all = ids(text);
    all.insert(all.begin(), kBos);
    return all;
  }
  std::string read_error(const std::string& lines) const {
    const testing::TemporaryFolder folder;
    testing::replace_file(folder / "r.jsonl", lines);
    return testing::error_of(ErrorKind::kData,
                             [&] { read_score_requests(folder / "r.jsonl", model(16)); });
  }

  Tokenizer tokenizer_ =
      Tokenizer::load(testing::source_dir() / "tests/reference/tokenizer/tokenizer.model");
};

TEST_F(ScoreRequest, PairIsEncodedAsAWhole) {
  const ScoredRow row = row_of_pair(model(100), "the ring", " buffer");
  EXPECT_EQ(row.ids, with_bos("the ring buffer"));
  EXPECT_EQ(row.num_scored, static_cast<int64_t>(row.ids.size() - with_bos("the ring").size()));
  const ScoredRow without = row_of_pair(model(100, /*add_bos=*/false), "the ring", " buffer");
  EXPECT_EQ(without.ids, ids("the ring buffer"));
  EXPECT_EQ(without.num_scored, row.num_scored);
}

TEST_F(ScoreRequest, SpaceBehindTheContextBelongsToTheContinuation) {
  const ScoredRow expected = row_of_pair(model(100), "the ring", " \u3000buffer");
  const ScoredRow row = row_of_pair(model(100), "the ring \u3000", "buffer");
  EXPECT_EQ(row.ids, expected.ids);
  EXPECT_EQ(row.num_scored, expected.num_scored);
}

TEST_F(ScoreRequest, EmptyContextIsBos) {
  for (const bool add_bos : {true, false}) {
    const ScoredRow row = row_of_pair(model(100, add_bos), "", "the ring");
    EXPECT_EQ(row.ids, with_bos("the ring"));
    EXPECT_EQ(row.num_scored, static_cast<int64_t>(ids("the ring").size()));
    const ScoredRow of_space = row_of_pair(model(100, add_bos), "  ", "the ring");
    EXPECT_EQ(of_space.ids, with_bos("  the ring"));
    EXPECT_EQ(of_space.num_scored, static_cast<int64_t>(ids("  the ring").size()));
  }
}

TEST_F(ScoreRequest, LongContextLosesItsBeginning) {
  const Ids whole = with_bos("the ring buffer is full of letters");
  const auto size = static_cast<int64_t>(whole.size());
  for (int64_t max_length = 3; max_length <= size; ++max_length) {
    const ScoredRow row = row_of_pair(model(max_length), "the ring buffer is full of letter", "s");
    const int64_t kept = std::min(size, max_length + 1);
    EXPECT_EQ(row.ids, Ids(whole.end() - kept, whole.end())) << max_length;
  }
}

TEST_F(ScoreRequest, ContinuationNeedsATokenAndRoom) {
  const auto error_of = [&](std::string_view context, std::string_view continuation) {
    return testing::error_of(ErrorKind::kData,
                             [&] { row_of_pair(model(4), context, continuation); });
  };
  EXPECT_NE(error_of("the ring", "").find("no token of its own"), std::string::npos);
  EXPECT_NE(error_of("", "").find("no token of its own"), std::string::npos);
  EXPECT_NE(error_of("a", " continuation that is longer").find("takes 4 at once"),
            std::string::npos);
}

// get_rolling_token_windows followed by make_disjoint_window of lm_eval/utils.py, as they are
// described: each token is predicted once, and the last window is filled on its left.
TEST_F(ScoreRequest, WindowsOfATextPredictEachTokenOnce) {
  const std::string text = "the ring buffer is full of letters, and the letters are read in order";
  Ids all = with_bos(text);
  all.insert(all.begin(), kBos);  // lm-eval predicts BOS too, from BOS
  const auto size = static_cast<int64_t>(all.size()) - 1;
  for (int64_t max_length = 1; max_length <= size + 2; ++max_length) {
    const std::vector<ScoredRow> rows = rows_of_text(model(max_length), text);
    EXPECT_EQ(static_cast<int64_t>(rows.size()), (size + max_length - 1) / max_length);
    int64_t scored = 0;
    for (const ScoredRow& row : rows) {
      scored += row.num_scored;
      const auto end = all.begin() + 1 + scored;
      const auto inputs = static_cast<int64_t>(row.ids.size()) - 1;
      EXPECT_EQ(row.ids, Ids(end - inputs - 1, end));
      EXPECT_EQ(inputs, std::min(max_length, size)) << "all windows are full";
    }
    EXPECT_EQ(scored, size);
  }
  EXPECT_EQ(rows_of_text(model(8), "").size(), 1U);  // BOS alone
  EXPECT_TRUE(rows_of_text(model(8, /*add_bos=*/false), "").empty());
}

TEST_F(ScoreRequest, FileHasRequestsOfBothKinds) {
  const testing::TemporaryFolder folder;
  testing::replace_file(folder / "r.jsonl",
                        "{\"id\":1,\"context\":\"the ring\",\"continuation\":\" buffer\"}\n"
                        "{\"text\":\"\"}\n"
                        "{\"text\":\"the ring buffer is full of letters, all of them read\"}\n"
                        "{\"context\":\"\",\"continuation\":\"a\"}\n");
  const ScoreRequests requests = read_score_requests(folder / "r.jsonl", model(8, false));
  ASSERT_EQ(requests.ends.size(), 4U);
  EXPECT_EQ(requests.ends[0], 1U);
  EXPECT_EQ(requests.ends[1], 1U);
  EXPECT_GT(requests.ends[2], 2U);
  EXPECT_EQ(requests.ends[3], requests.rows.size());
  EXPECT_EQ(requests.ends[3], requests.ends[2] + 1);
}

TEST_F(ScoreRequest, DamagedLineIsNamed) {
  const std::string good = "{\"text\":\"a\"}\n";
  for (const char* bad :
       {"{}", "{\"context\":\"a\"}", "{\"continuation\":\"a\"}",
        "{\"text\":\"a\",\"context\":\"b\",\"continuation\":\"c\"}", "{\"text\":null}",
        "{\"context\":\"a\",\"continuation\":\"\"}", "{\"context\":\"a\",\"continuation\":3}",
        "{\"text\":\"\\ud800\"}", "not JSON"}) {
    const std::string message = read_error(good + bad);
    EXPECT_NE(message.find("r.jsonl:2: "), std::string::npos) << message;
    EXPECT_EQ(message.find("r.jsonl:2: "), message.rfind("r.jsonl:2: ")) << message;
  }
}

TEST(ScoreAnswer, AddsTheRowsOfARequestInDouble) {
  std::vector<RowScore> scores(3);
  scores[0] = {{-0.1F, -1e-9F}, true};
  scores[1] = {{-16777216.0F}, true};
  scores[2] = {{-0.5F}, false};
  const auto answer = [&](size_t first, size_t end) {
    return nlohmann::json::parse(score_answer(scores.data() + first, scores.data() + end));
  };
  EXPECT_EQ(answer(0, 2).at("logprob"), double{-0.1F} + double{-1e-9F} - 16777216.0);
  EXPECT_EQ(answer(0, 2).at("is_greedy"), true);
  EXPECT_EQ(answer(0, 2).at("tokens"), 3);
  EXPECT_EQ(answer(1, 3).at("is_greedy"), false);
  EXPECT_EQ(score_answer(scores.data(), scores.data()),
            R"({"logprob":0.0,"is_greedy":true,"tokens":0})");
}

}  // namespace
}  // namespace lmtrain
