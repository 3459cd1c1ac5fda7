#include "checkpoint/state.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/support.h"
#include "base/text.h"

namespace lmtrain {
namespace {

using testing::error_of;
using Json = nlohmann::ordered_json;

TrainingState full_state() {
  TrainingState state;
  state.run = "fedcba9876543210fedcba9876543210";
  state.step = 1234;
  state.batch = 1240;
  state.tokens = 987654321012;
  state.elapsed = 0.1 + 0.2;  // no short decimal
  state.guard.skips_in_a_row = 3;
  state.guard.windows[64] = {{4.1, 1.0 / 3}, {0.1 + 0.2, 1e-300}};
  state.guard.windows[1024] = {{2.5}, {0.5}};
  state.guard.skipped_batches = {5, 12};
  state.guard.rollback_step = 4;
  state.guard.rollbacks_in_a_row = 2;
  state.loss_scale = LossScale{8192, 77};
  state.micro = {8192, {{256, 16}, {1024, 4}}};
  state.seed = 1339;
  state.eval_step = 1200;
  state.loss = 4.0 / 3.0;
  state.eval_loss = 1e-300;
  state.eval_pending = true;
  state.evaluations = {{{900, 4.0 / 3.0}}, 3, {{900, 4.0 / 3.0}, {1000, 1.5}}};
  state.kept = true;
  state.fingerprint = "0123456789abcdef0123456789abcdef";
  state.planned = {.steps = 0, .tokens = 1'000'000, .epochs = 0};
  state.replans = {{40, {.steps = 10, .tokens = 0, .epochs = 0}},
                   {60, {.tokens = 4000}, Pace{7000, 6999.5, 11000}},
                   {77, {.steps = 0, .tokens = 0, .epochs = 1.5}}};
  state.total = {.steps = 0, .tokens = 0, .epochs = 1.5};
  return state;
}

void expect_equal(const RunLength& actual, const RunLength& expected) {
  EXPECT_EQ(actual.steps, expected.steps);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.epochs, expected.epochs);
}

void expect_equal(const TrainingState& actual, const TrainingState& expected) {
  EXPECT_EQ(actual.run, expected.run);
  EXPECT_EQ(actual.step, expected.step);
  EXPECT_EQ(actual.batch, expected.batch);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.elapsed, expected.elapsed);
  EXPECT_EQ(actual.seed, expected.seed);
  EXPECT_EQ(actual.eval_step, expected.eval_step);
  EXPECT_EQ(actual.guard, expected.guard);
  EXPECT_EQ(actual.loss_scale, expected.loss_scale);
  EXPECT_EQ(actual.micro, expected.micro);
  EXPECT_EQ(actual.loss, expected.loss);
  EXPECT_EQ(actual.eval_loss, expected.eval_loss);
  EXPECT_EQ(actual.eval_pending, expected.eval_pending);
  EXPECT_EQ(actual.evaluations, expected.evaluations);
  EXPECT_EQ(actual.kept, expected.kept);
  EXPECT_EQ(actual.fingerprint, expected.fingerprint);
  expect_equal(actual.planned, expected.planned);
  expect_equal(actual.total, expected.total);
  ASSERT_EQ(actual.replans.size(), expected.replans.size());
  for (size_t i = 0; i < actual.replans.size(); ++i) {
    EXPECT_EQ(actual.replans[i].first_batch, expected.replans[i].first_batch);
    expect_equal(actual.replans[i].left, expected.replans[i].left);
    EXPECT_EQ(actual.replans[i].pace, expected.replans[i].pace);
  }
}

TEST(State, RoundTrip) {
  for (const TrainingState& state : {TrainingState(), full_state()}) {
    const std::string text = state_to_text(state);
    const TrainingState read = parse_state(text, "state.json");
    expect_equal(read, state);
    EXPECT_EQ(state_to_text(read), text);
  }
}

// Byte by byte, but for line breaks: other programs read it, and rank 0 sends it to the others.
TEST(State, IsWrittenFieldByField) {
  const Json expected = Json::parse(R"({"version":3,"run":"fedcba9876543210fedcba9876543210",
    "seed":1339,"step":1234,"batch":1240,"tokens":987654321012,"elapsed":0.30000000000000004,
    "loss":1.3333333333333333,"eval_loss":1e-300,"eval_step":1200,"eval_pending":true,
    "evaluations":{"lowest":{"step":900,"loss":1.3333333333333333},"without_gain":3,
                   "after_save":[{"step":900,"loss":1.3333333333333333},{"step":1000,"loss":1.5}]},
    "fingerprint":"0123456789abcdef0123456789abcdef",
    "planned":{"steps":0,"tokens":1000000,"epochs":0.0},
    "replans":[{"first_batch":40,"left":{"steps":10,"tokens":0,"epochs":0.0}},
               {"first_batch":60,"left":{"steps":0,"tokens":4000,"epochs":0.0},
                "pace":{"tokens":7000,"done":6999.5,"end":11000}},
               {"first_batch":77,"left":{"steps":0,"tokens":0,"epochs":1.5}}],
    "total":{"steps":0,"tokens":0,"epochs":1.5},
    "guard":{"skips_in_a_row":3,
             "windows":{"64":{"losses":[4.1,0.3333333333333333],
                              "grad_norms":[0.30000000000000004,1e-300]},
                        "1024":{"losses":[2.5],"grad_norms":[0.5]}},
             "passed_over":[5,12],"rollback_step":4,"rollbacks_in_a_row":2},
    "loss_scale":{"scale":8192.0,"good_in_a_row":77},"kept":true,
    "micro":{"micro_tokens":8192,"rows":{"256":16,"1024":4}}})");
  EXPECT_EQ(state_to_text(full_state()), expected.dump(2) + "\n");
  // What is not there, or no number, is null.
  TrainingState empty;
  empty.loss = std::nan("");
  const Json json = Json::parse(state_to_text(empty));
  for (const char* key : {"loss", "eval_loss", "eval_step", "loss_scale"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
  EXPECT_EQ(json.at("guard").at("windows").dump(), "{}");
  EXPECT_EQ(json.at("replans").dump(), "[]");
}

TEST(State, WhatIsMissingOrWrongIsNamed) {
  const Json whole = Json::parse(state_to_text(full_state()));
  for (const auto& [field, value] : whole.items()) {
    Json missing = whole;
    missing.erase(field);
    const std::string message =
        error_of(ErrorKind::kCheckpoint, [&] { parse_state(missing.dump(), "run/state.json"); });
    EXPECT_NE(message.find("run/state.json"), std::string::npos) << message;
    EXPECT_NE(message.find(field), std::string::npos) << message;

    Json wrong = whole;
    wrong[field] = Json::array({"no", "such", "type"});
    error_of(ErrorKind::kCheckpoint, [&] { parse_state(wrong.dump(), "run/state.json"); });
  }
}

TEST(State, BrokenTextIsACheckpointError) {
  const std::string text = state_to_text(full_state());
  for (size_t size = 0; size + 2 < text.size(); size += 7) {
    error_of(ErrorKind::kCheckpoint, [&] { parse_state(text.substr(0, size), "state.json"); });
  }
  for (const char* other : {"[]", "null", "5", "{}", "\xFF"}) {
    error_of(ErrorKind::kCheckpoint, [&] { parse_state(other, "state.json"); });
  }
}

TEST(State, ANewerVersionSaysSo) {
  Json json = Json::parse(state_to_text(full_state()));
  json["version"] = 99;
  const std::string message =
      error_of(ErrorKind::kCheckpoint, [&] { parse_state(json.dump(), "state.json"); });
  EXPECT_NE(message.find("99"), std::string::npos) << message;
  EXPECT_NE(message.find("resume with the lmtrain that wrote it"), std::string::npos) << message;
}

TEST(State, IsSavedAgainWhereAResumeWouldGoOnOtherwise) {
  const TrainingState saved = full_state();
  EXPECT_FALSE(must_save_again(saved, saved));
  const auto after = [&](const std::function<void(TrainingState&)>& change) {
    TrainingState now = saved;
    change(now);
    return must_save_again(saved, now);
  };
  EXPECT_TRUE(after([](TrainingState& now) { ++now.step; }));
  EXPECT_TRUE(after([](TrainingState& now) { ++now.batch; }));
  EXPECT_TRUE(after([](TrainingState& now) { now.guard.skipped_batches.push_back(13); }));
  EXPECT_TRUE(after([](TrainingState& now) { now.loss_scale->on_overflow(); }));
  EXPECT_TRUE(after([](TrainingState& now) { now.micro.rows[256] = 8; }));
  EXPECT_TRUE(after([](TrainingState& now) { now.eval_pending = false; }));
  EXPECT_TRUE(after([](TrainingState& now) { now.eval_step = now.step; }));
  EXPECT_FALSE(after([](TrainingState& now) { now.elapsed += 1; }));
  TrainingState evaluated = saved, due = saved;
  evaluated.eval_pending = false;
  EXPECT_FALSE(must_save_again(evaluated, due)) << "a resume makes the last evaluation anyway";
}

}  // namespace
}  // namespace lmtrain
