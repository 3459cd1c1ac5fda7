// The loop with loss or gradient spoiled on purpose: what the guard promises in
// docs/reliability.md.
#include <set>

#include "checkpoint/given_model.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "training/step.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::Json;
using testing::TinyRun;

using Spoil = std::function<void(const Batch&, double&, const at::Tensor&)>;

Spoil nan_loss(int64_t batch) {
  return [batch](const Batch& b, double& loss, const at::Tensor&) {
    if (b.index == batch) loss = NAN;
  };
}
// One number of one tensor.
Spoil bad_gradient(int64_t batch, double value, int64_t index) {
  return [=](const Batch& b, double&, const at::Tensor& grad) {
    if (b.index == batch) grad[index] = value;
  };
}

RunOutcome train(const TinyRun& tiny, const Spoil& spoil,
                 std::optional<int64_t> checkpoint = std::nullopt) {
  Trainer trainer = tiny.trainer(checkpoint);
  return trainer.run({.after_backward = spoil});
}

size_t fingerprint_of(const Parameters& parameters) {
  const auto* bytes = static_cast<const char*>(parameters.master().data_ptr());
  return std::hash<std::string_view>()({bytes, parameters.master().nbytes()});
}

// Fingerprint of the weights after `steps` updates by a loop that knows no guard and leaves out
// these batches.
size_t weights_without(const TinyRun& tiny, const std::vector<int64_t>& left_out, int64_t steps) {
  const Config& config = tiny.config;
  Parameters parameters(ParameterLayout(config.model, *config.model.vocab_size), at::kFloat,
                        at::kCPU);
  parameters.initialize(config.seed, config.model.initializer_range);
  Llama model(config.model, parameters, config.sequence.max_length, config.compile);
  const auto optimizer = make_optimizer(config.optimizer, parameters);
  const TokenShard shard(tiny.data.train_shard, /*verify_tokens=*/false);
  const BatchOrder order({.shard = shard,
                          .sources = tiny.data.sources,
                          .fingerprint = tiny.data.fingerprint,
                          .sequence = config.sequence,
                          .data = config.data,
                          .data_seed = config.data_seed(),
                          .batch_tokens = config.batch.tokens,
                          .run = run_length(config.train)});
  const LrSchedule schedule(config.lr_schedule, config.optimizer.lr, run_clock(config, order));
  const at::Tensor grad = at::zeros_like(parameters.master());
  int64_t step = 0;
  for (int64_t k = 0; step < steps; ++k) {
    if (std::find(left_out.begin(), left_out.end(), k) != left_out.end()) continue;
    accumulate_batch(model, order.batch(k), *config.batch.micro_tokens, grad);
    const double scale = clip_gradient(config.clip, grad, gradient_norm(grad, parameters.layout()));
    optimizer->update({step + 1, schedule.at(static_cast<double>(step)), scale, {}}, grad);
    ++step;
  }
  return fingerprint_of(parameters);
}

size_t weights_of(const TinyRun& tiny, int64_t step) {
  Parameters parameters(ParameterLayout(tiny.config.model, *tiny.config.model.vocab_size),
                        at::kFloat, at::kCPU);
  load_initial_weights(tiny.run.checkpoint(step).string(), parameters, "");
  return fingerprint_of(parameters);
}

// One line an update, from 1, each finite.
void expect_whole_metrics(const TinyRun& tiny, int64_t steps) {
  int64_t step = 0;
  for (const Json& line : tiny.lines(tiny.run.metrics())) {
    if (!line.contains("loss")) continue;
    EXPECT_EQ(line.at("step"), ++step);
    EXPECT_TRUE(line.at("loss").is_number()) << line;
  }
  EXPECT_EQ(step, steps);
}

TEST(TrainerGuard, ASkippedBatchWasNeverSeen) {
  struct Case {
    Spoil spoil;
    bool names_tensor;
  };
  for (const Case& c : {Case{nan_loss(17), false}, Case{bad_gradient(17, NAN, 3), true},
                        Case{bad_gradient(17, HUGE_VAL, 3), true}}) {
    const TinyRun tiny;
    EXPECT_EQ(train(tiny, c.spoil).exit_code, 0);
    EXPECT_EQ(weights_of(tiny, 40), weights_without(tiny, {17}, 40));
    expect_whole_metrics(tiny, 40);
    const std::vector<Json> skips = tiny.events("skip");
    ASSERT_EQ(skips.size(), 1U);
    EXPECT_EQ(skips[0].at("step"), 17);
    EXPECT_EQ(skips[0].at("skipped_batch"), 17);
    EXPECT_FALSE(skips[0].at("documents").empty());
    if (c.names_tensor) {
      EXPECT_EQ(skips[0].at("tensor"), "model.embed_tokens.weight");
    } else {
      EXPECT_TRUE(skips[0].at("tensor").is_null());
    }
  }
}

// The table of files in the cache is gone, which is no reason to end a run.
TEST(TrainerGuard, ARefusedBatchWithoutTheTableOfFilesNamesNone) {
  const TinyRun tiny;
  std::filesystem::remove(tiny.data.document_files);
  EXPECT_EQ(train(tiny, nan_loss(17)).exit_code, 0);
  EXPECT_TRUE(tiny.events("skip").at(0).at("files").is_null());
}

// Rows of several documents, and documents of several rows.
TEST(TrainerGuard, ARefusedBatchNamesEveryDocumentOnce) {
  std::vector<std::string> sample;
  for (const auto& file : std::filesystem::directory_iterator(LMTRAIN_SOURCE_DIR "/data/sample"))
    sample.push_back(file.path().native());
  std::sort(sample.begin(), sample.end());
  for (const char* batching : {"bucket", "concat"}) {
    const TinyRun tiny(Json{{"guard", {{"max_skips", 1000}}},
                            {"train", {{"steps", 5}}},
                            {"data", {{"shuffle", false}}},
                            {"sequence", {{"batching", batching}}}});
    std::map<int64_t, std::set<int64_t>> documents;
    size_t num_parts = 0;
    train(tiny, [&](const Batch& batch, double& loss, const at::Tensor&) {
      if (batch.index >= 100) return;
      loss = NAN;
      num_parts += batch.documents.size();
      documents[batch.index].insert(batch.documents.begin(), batch.documents.end());
    });
    size_t num_documents = 0;
    for (const Json& skip : tiny.events("skip")) {
      const auto named = skip.at("documents").get<std::vector<int64_t>>();
      const std::set<int64_t>& expected = documents.at(skip.at("skipped_batch"));
      EXPECT_EQ(named, std::vector<int64_t>(expected.begin(), expected.end()));
      num_documents += named.size();
      // Each file of the sample is a document.
      std::vector<std::string> files;
      for (const int64_t document : expected)
        files.push_back(sample.at(static_cast<size_t>(document)));
      EXPECT_EQ(skip.at("files").get<std::vector<std::string>>(), files);
    }
    EXPECT_EQ(documents.size(), 100U);
    EXPECT_LT(num_documents, num_parts) << "some document fills several rows";
    EXPECT_GT(num_documents, 100U) << "some batch is of several documents";
  }
}

TEST(TrainerGuard, TheComparisonsShowADifference) {
  const TinyRun tiny;
  train(tiny, nan_loss(17));
  EXPECT_NE(weights_of(tiny, 40), weights_without(tiny, {18}, 40));
  EXPECT_NE(weights_of(tiny, 40), weights_without(tiny, {}, 40));
  const TinyRun whole;
  train(whole, nullptr);
  EXPECT_EQ(weights_of(whole, 40), weights_without(whole, {}, 40));
}

// The step is applied as it is; but weights that are lost end the run, and make no checkpoint that
// would push out the good ones.
TEST(TrainerGuard, OffLetsItThroughAndTheRunIsNotDone) {
  struct Case {
    Json changes;
    int64_t step;  // at which it is noticed
    const char* part;
  };
  for (const Case& c :
       {Case{{{"eval", {{"every", 6}}}}, 18, "the weights are not finite"},
        Case{{{"eval", {{"every", 0}}}}, 20, "model.embed_tokens.weight"},
        Case{{{"eval", {{"every", 0}}}, {"checkpoint", {{"every", 0}}}}, 40, "no checkpoint"},
        Case{{{"data", {{"eval", nullptr}, {"eval_fraction", 0}}}, {"checkpoint", {{"every", 0}}}},
             40,
             "guard.on_nonfinite is \"off\""}}) {
    Json changes = c.changes;
    changes["guard"] = {{"on_nonfinite", "off"}};
    const TinyRun tiny(changes);
    const std::string message =
        error_of(ErrorKind::kNumeric, [&] { train(tiny, bad_gradient(17, NAN, 3)); });
    EXPECT_NE(message.find(c.part), std::string::npos) << message;
    EXPECT_TRUE(tiny.events("skip").empty());
    EXPECT_EQ(tiny.status().at("state"), "diverged");
    EXPECT_EQ(tiny.status().at("exit_code"), 4);
    EXPECT_EQ(tiny.status().at("step"), c.step);
    for (const int64_t step : tiny.run.checkpoint_steps()) EXPECT_LE(step, 15);
  }
}

// The loss alone is lost, in the last step: the weights are fine, and it is not done all the same.
TEST(TrainerGuard, ALastLossThatIsNotFiniteIsNoEnd) {
  const TinyRun tiny(Json{{"guard", {{"on_nonfinite", "off"}}}});
  const std::string message = error_of(ErrorKind::kNumeric, [&] { train(tiny, nan_loss(39)); });
  EXPECT_NE(message.find("the loss of the last step is not finite"), std::string::npos) << message;
  // In the middle it is a line of metrics.jsonl and no more.
  const TinyRun earlier(Json{{"guard", {{"on_nonfinite", "off"}}}});
  EXPECT_EQ(train(earlier, nan_loss(17)).exit_code, 0);
}

TEST(TrainerGuard, StopEndsTheRun) {
  const TinyRun tiny(Json{{"guard", {{"on_nonfinite", "stop"}}}});
  const std::string message = error_of(ErrorKind::kNumeric, [&] { train(tiny, nan_loss(17)); });
  EXPECT_NE(message.find("batch 17"), std::string::npos) << message;
  EXPECT_EQ(tiny.events("skip").size(), 1U);
  EXPECT_EQ(tiny.events("end").size(), 1U);
  EXPECT_EQ(tiny.status().at("state"), "diverged");
  EXPECT_EQ(tiny.status().at("exit_code"), 4);
}

TEST(TrainerGuard, TooManySkipsInARowEndTheRun) {
  const auto from_17 = [](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index >= 17) loss = NAN;
  };
  const TinyRun tiny(Json{{"guard", {{"max_skips", 4}}}});
  error_of(ErrorKind::kNumeric, [&] { train(tiny, from_17); });
  EXPECT_EQ(tiny.events("skip").size(), 4U);
  // Every other batch is no row of them.
  const TinyRun alternating(Json{{"guard", {{"max_skips", 2}}}});
  const auto odd = [](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index % 2 == 1) loss = NAN;
  };
  EXPECT_EQ(train(alternating, odd).exit_code, 0);
}

TEST(TrainerGuard, RollbackGoesBackAndPassesTheBatchBy) {
  for (const bool async : {true, false}) {
    const TinyRun tiny(
        Json{{"guard", {{"on_nonfinite", "rollback"}}}, {"checkpoint", {{"async", async}}}});
    EXPECT_EQ(train(tiny, nan_loss(17)).exit_code, 0);
    EXPECT_EQ(weights_of(tiny, 40), weights_without(tiny, {17}, 40));
    expect_whole_metrics(tiny, 40);
    EXPECT_TRUE(tiny.events("skip").empty());
    const std::vector<Json> rollbacks = tiny.events("rollback");
    ASSERT_EQ(rollbacks.size(), 1U);
    EXPECT_EQ(rollbacks[0].at("step"), 15);
    EXPECT_EQ(rollbacks[0].at("from_step"), 17);
    EXPECT_EQ(rollbacks[0].at("checkpoint"), tiny.run.checkpoint(15).string());
    EXPECT_EQ(rollbacks[0].at("passed_over"), Json::array({17}));
    EXPECT_EQ(tiny.state(40).guard.skipped_batches, (std::vector<int64_t>{17}));
  }
}

TEST(TrainerGuard, RollbackWithoutACheckpointBeginsAgain) {
  const TinyRun tiny(Json{{"guard", {{"on_nonfinite", "rollback"}}}});
  EXPECT_EQ(train(tiny, nan_loss(2)).exit_code, 0);
  EXPECT_EQ(weights_of(tiny, 40), weights_without(tiny, {2}, 40));
  expect_whole_metrics(tiny, 40);
}

// Two bad batches in one checkpoint interval cost no good one beside them.
TEST(TrainerGuard, ASecondRollbackPassesByItsBatchAlone) {
  const TinyRun tiny(Json{{"guard", {{"on_nonfinite", "rollback"}}}});
  const auto two = [](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index == 16 || batch.index == 18) loss = NAN;
  };
  EXPECT_EQ(train(tiny, two).exit_code, 0);
  ASSERT_EQ(tiny.events("rollback").size(), 2U);
  EXPECT_EQ(tiny.events("rollback")[1].at("step"), 15);
  EXPECT_EQ(tiny.events("rollback")[1].at("passed_over"), Json::array({16, 18}));
  EXPECT_EQ(tiny.state(40).guard.skipped_batches, (std::vector<int64_t>{16, 18}));
  EXPECT_EQ(weights_of(tiny, 40), weights_without(tiny, {16, 18}, 40));
  expect_whole_metrics(tiny, 40);
}

TEST(TrainerGuard, RollbacksHaveAnEnd) {
  const TinyRun tiny(Json{{"guard", {{"on_nonfinite", "rollback"}, {"max_skips", 3}}}});
  const auto from_17 = [](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index >= 17) loss = NAN;
  };
  const std::string message = error_of(ErrorKind::kNumeric, [&] { train(tiny, from_17); });
  EXPECT_NE(message.find("step 15"), std::string::npos) << message;
  EXPECT_EQ(tiny.events("rollback").size(), 4U);
  EXPECT_EQ(tiny.status().at("exit_code"), 4);
}

TEST(TrainerGuard, GoesOnAlikeAcrossAResume) {
  for (const char* policy : {"skip", "rollback"}) {
    const TinyRun tiny(Json{{"guard", {{"on_nonfinite", policy}}}});
    // Before and after the checkpoint that the resume goes on from.
    const auto three = [](const Batch& batch, double& loss, const at::Tensor&) {
      if (batch.index == 7 || batch.index == 22 || batch.index == 31) loss = NAN;
    };
    train(tiny, three);
    const std::string whole = tiny.bytes(40);
    EXPECT_EQ(weights_of(tiny, 40), weights_without(tiny, {7, 22, 31}, 40));
    EXPECT_EQ(tiny.state(20).batch, 21);
    for (const int64_t step : {25, 30, 35, 40})
      std::filesystem::remove_all(tiny.run.checkpoint(step));
    train(tiny, three, 20);
    EXPECT_TRUE(tiny.bytes(40) == whole) << policy;
    expect_whole_metrics(tiny, 40);
  }
}

Json spikes(const char* policy) {
  return {{"guard", {{"on_spike", policy}, {"window", 16}, {"spike_sigma", 200}}},
          {"sequence", {{"min_length", 64}, {"schedule", {{"type", "constant"}}}}}};
}
Spoil spike_at(int64_t batch) {
  return [batch](const Batch& b, double& loss, const at::Tensor&) {
    if (b.index == batch) loss = 1000;
  };
}

TEST(TrainerGuard, ASpikeIsSkipped) {
  const TinyRun tiny(spikes("skip"));
  EXPECT_EQ(train(tiny, spike_at(30)).exit_code, 0);
  EXPECT_EQ(tiny.events("spike").size(), 1U);
  EXPECT_EQ(tiny.events("spike")[0].at("skipped_batch"), 30);
  EXPECT_EQ(tiny.events("skip").size(), 1U);
  EXPECT_EQ(weights_of(tiny, 40), weights_without(tiny, {30}, 40));
  // Without the guard it is applied, and so it is before the window is half full.
  const TinyRun off(spikes("off"));
  train(off, spike_at(30));
  EXPECT_EQ(weights_of(off, 40), weights_without(off, {}, 40));
  const TinyRun early(spikes("skip"));
  train(early, spike_at(3));
  EXPECT_TRUE(early.events("spike").empty());
}

TEST(TrainerGuard, ASpikeUnderRollbackAndStop) {
  const TinyRun back(spikes("rollback"));
  EXPECT_EQ(train(back, spike_at(33)).exit_code, 0);
  EXPECT_EQ(back.events("spike").size(), 1U);
  ASSERT_EQ(back.events("rollback").size(), 1U);
  EXPECT_EQ(back.events("rollback")[0].at("step"), 30);
  EXPECT_EQ(weights_of(back, 40), weights_without(back, {33}, 40));
  const TinyRun stop(spikes("stop"));
  error_of(ErrorKind::kNumeric, [&] { train(stop, spike_at(33)); });
  EXPECT_EQ(stop.events("spike").size(), 1U);
  EXPECT_TRUE(stop.events("skip").empty());
  EXPECT_EQ(stop.status().at("exit_code"), 4);
}

// A NaN and a spike leave nothing behind in the windows, which a resume loads.
TEST(TrainerGuard, StillWorksAThousandStepsLaterAndAcrossAResume) {
  Json changes = spikes("skip");
  changes["train"] = {{"steps", 1060}};
  changes["checkpoint"] = {{"every", 500}};
  changes["eval"] = {{"every", 0}};
  const TinyRun tiny(changes);
  const auto spoil = [](const Batch& batch, double& loss, const at::Tensor& grad) {
    if (batch.index == 20) loss = NAN;
    if (batch.index == 25 || batch.index == 1030) loss = 1000;
    if (batch.index == 1040) grad[3] = NAN;
  };
  EXPECT_EQ(train(tiny, spoil).exit_code, 0);
  std::vector<int64_t> skipped;
  for (const Json& skip : tiny.events("skip")) skipped.push_back(skip.at("skipped_batch"));
  EXPECT_EQ(skipped, (std::vector<int64_t>{20, 25, 1030, 1040}));
  EXPECT_EQ(weights_of(tiny, 1060), weights_without(tiny, {20, 25, 1030, 1040}, 1060));
  const std::string whole = tiny.bytes(1060);
  const GuardState guard = tiny.state(1060).guard;
  EXPECT_EQ(guard.windows.at(64).losses.size(), 16U);
  std::filesystem::remove_all(tiny.run.checkpoint(1060));
  train(tiny, spoil, 1000);
  EXPECT_TRUE(tiny.bytes(1060) == whole);
  EXPECT_EQ(tiny.state(1060).guard, guard);
  EXPECT_EQ(tiny.events("skip").size(), 6U);
}

}  // namespace
}  // namespace lmtrain
