#include "eval/answer_requests.h"

#include <gtest/gtest.h>

#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::random_ids;
using testing::TinyModel;

// Some 300,000 tokens: more than are taken together.
ScoreRequests many_requests() {
  ScoreRequests requests;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    for (uint64_t rows = seed % 3; rows > 0; --rows)
      requests.rows.push_back({random_ids(static_cast<int64_t>(14 + (seed + rows) % 4), seed), 1});
    requests.ends.push_back(requests.rows.size());
  }
  return requests;
}

TEST(AnswerRequests, AnswersInOrder) {
  TinyModel model;
  const ScoreRequests requests = many_requests();
  const auto scores =
      score_rows(model.llama, requests.rows, 8192, [](size_t /*done*/) { return true; });
  std::vector<std::string> lines;
  std::vector<size_t> calls;
  EXPECT_TRUE(answer_requests(
      model.llama, requests, 8192,
      [&](size_t done) {
        EXPECT_TRUE(calls.empty() || done > calls.back());
        calls.push_back(done);
        return true;
      },
      [&](const std::string& line) { lines.push_back(line); }));
  ASSERT_EQ(lines.size(), requests.ends.size());
  size_t begin = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t end = requests.ends[i];
    const auto expected =
        nlohmann::json::parse(score_answer(scores->data() + begin, scores->data() + end));
    const auto actual = nlohmann::json::parse(lines[i]);
    EXPECT_NEAR(actual.at("logprob"), expected.at("logprob").get<double>(), 1e-5);
    EXPECT_EQ(actual.at("tokens"), end - begin);
    begin = end;
  }
}

TEST(AnswerRequests, AnswersBeforeAStopAreWhole) {
  TinyModel model;
  const ScoreRequests requests = many_requests();
  size_t answers = 0;
  EXPECT_FALSE(answer_requests(
      model.llama, requests, 8192, [&](size_t /*done*/) { return answers == 0; },
      [&](const std::string& /*line*/) { ++answers; }));
  EXPECT_GT(answers, 10000U);
  EXPECT_LT(answers, requests.ends.size());
}

}  // namespace
}  // namespace lmtrain
