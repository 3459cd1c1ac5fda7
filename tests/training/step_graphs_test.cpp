// `compile: graph` on a CPU: all but the capture itself, which is the GPU's. What is captured there
// is kept here, and done again at every launch.
#include "training/step_graphs.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/support.h"
#include "support/operator_calls.h"
#include "support/pooled_memory.h"
#include "training/graph_training.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::GraphCase;
using testing::GraphOutcome;
using testing::Json;
using testing::kGraphSteps;
using testing::PooledMemory;
using testing::PooledRecorder;
using testing::TinyRun;
using testing::train_by_graphs;

struct Counts {
  int warm_ups = 0, captures = 0, launches = 0;
};

// The CPU's recorder, watched, and spoiled where a test says so.
class Recorder : public GraphRecorder {
 public:
  explicit Recorder(Counts& counts) : counts_(counts) {}

  void warm_up(const Work& work) override {
    ++counts_.warm_ups;
    work();
    if (after_warm_up) after_warm_up(counts_.warm_ups);
  }
  std::unique_ptr<CapturedGraph> capture(const Work& work) override {
    ++counts_.captures;
    if (before_capture) before_capture(work, counts_.captures);
    return std::make_unique<Graph>(*this, inner_->capture(work));
  }

  std::function<void(int number)> after_warm_up;
  std::function<void(const Work&, int number)> before_capture;
  std::function<bool(int number)> launches = [](int) { return true; };

 private:
  class Graph : public CapturedGraph {
   public:
    Graph(Recorder& recorder, std::unique_ptr<CapturedGraph> inner)
        : recorder_(recorder), inner_(std::move(inner)) {}
    void launch() override {
      if (recorder_.launches(++recorder_.counts_.launches)) inner_->launch();
    }

   private:
    Recorder& recorder_;
    std::unique_ptr<CapturedGraph> inner_;
  };

  Counts& counts_;
  std::unique_ptr<GraphRecorder> inner_ = graph_recorder(at::kCPU);
};

GraphOutcome by_script(const GraphCase& test) {
  return train_by_graphs(test, CompileMode::kScript, nullptr);
}

GraphOutcome by_graphs(const GraphCase& test, Counts& counts) {
  return train_by_graphs(test, CompileMode::kGraph, std::make_unique<Recorder>(counts));
}

struct NamedCase {
  const char* name;
  GraphCase test;
};

class StepGraphsTest : public ::testing::TestWithParam<NamedCase> {};

TEST_P(StepGraphsTest, GiveTheBitsOfScript) {
  const GraphCase& test = GetParam().test;
  Counts counts;
  const GraphOutcome expected = by_script(test);
  EXPECT_TRUE(by_graphs(test, counts) == expected);
  EXPECT_TRUE(train_by_graphs(test, CompileMode::kEager, nullptr) == expected);
  EXPECT_GT(counts.captures, 0);
  EXPECT_GT(counts.launches, 20);
  // Every graph was preceded by its warm_ups.
  EXPECT_GE(counts.warm_ups, StepGraphs::kWarmUps * counts.captures);
  for (const double number : expected.numbers) EXPECT_TRUE(std::isfinite(number));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StepGraphsTest,
    ::testing::Values(
        NamedCase{"AdamW", {"adamw"}}, NamedCase{"Lion", {"lion"}},
        NamedCase{"AdEMAMix", {"ademamix"}}, NamedCase{"Muon", {"muon"}},
        NamedCase{"Soap", {"soap"}}, NamedCase{"Packed", {"adamw", at::kFloat, at::kCPU, true}},
        NamedCase{"PackedLionInBf16", {"lion", at::kBFloat16, at::kCPU, true}},
        NamedCase{"Bf16", {"adamw", at::kBFloat16}}, NamedCase{"Fp16", {"adamw", at::kHalf}},
        NamedCase{"PackedFp16", {"ademamix", at::kHalf, at::kCPU, true}},
        NamedCase{"Checkpointed", {"ademamix", at::kFloat, at::kCPU, true, true}},
        NamedCase{"Fp8", {"adamw", at::kBFloat16, at::kCPU, true, false, /*fp8=*/true}}),
    [](const auto& instance) { return instance.param.name; });

// Three lengths, of whole micro-batches and of a last one that is smaller, put and added; and the
// update.
TEST(StepGraphs, OneOfEachShape) {
  Counts counts;
  by_graphs({}, counts);
  EXPECT_EQ(counts.captures, 3 * 2 + 3 + 1);
}

// Segments are rounded up, or every packed batch would have a shape of its own.
TEST(StepGraphs, PackedBatchesShareGraphs) {
  Counts counts;
  by_graphs({"adamw", at::kFloat, at::kCPU, /*packed=*/true}, counts);
  EXPECT_GT(counts.launches, counts.captures);
  EXPECT_GT(counts.launches, counts.warm_ups / 2);
}

// ---- What the comparison must notice ----

// As a graph that has the learning rate, or another number of the update, baked in.
class BakedUpdate : public Optimizer, private CapturableUpdate {
 public:
  explicit BakedUpdate(std::unique_ptr<Optimizer> inner) : inner_(std::move(inner)) {}
  void update(const UpdateStep& step, const at::Tensor& grad) override {
    inner_->update(step, grad);
  }
  CapturableUpdate* capturable() override { return this; }
  const std::vector<OptimizerBuffer>& buffers() const override { return inner_->buffers(); }

 private:
  void set_constants(const UpdateStep& step) override {
    if (++updates_ <= StepGraphs::kWarmUps + 1) inner_->capturable()->set_constants(step);
  }
  void apply(const at::Tensor& grad) override { inner_->capturable()->apply(grad); }

  std::unique_ptr<Optimizer> inner_;
  int updates_ = 0;
};

TEST(StepGraphs, ABakedInLearningRateIsNoticed) {
  for (const char* optimizer : {"adamw", "lion", "ademamix"}) {
    const auto baked = [](const GraphCase& test, Parameters& parameters) {
      return std::make_unique<BakedUpdate>(testing::usual_optimizer(test, parameters));
    };
    Counts counts;
    const GraphCase test{optimizer};
    EXPECT_FALSE(train_by_graphs(test, CompileMode::kGraph, std::make_unique<Recorder>(counts),
                                 baked) == by_script(test));
  }
}

TEST(StepGraphs, ALaunchThatDoesNothingIsNoticed) {
  const GraphOutcome expected = by_script({});
  Counts all;
  by_graphs({}, all);
  for (const int missing : {1, 2, all.launches / 2, all.launches}) {
    Counts counts;
    auto recorder = std::make_unique<Recorder>(counts);
    recorder->launches = [missing](int number) { return number != missing; };
    EXPECT_FALSE(train_by_graphs({}, CompileMode::kGraph, std::move(recorder)) == expected)
        << missing;
  }
}

TEST(StepGraphs, ACaptureThatDoesTheWorkTooIsNoticed) {
  Counts counts;
  auto recorder = std::make_unique<Recorder>(counts);
  recorder->before_capture = [](const Work& work, int) { work(); };
  EXPECT_FALSE(train_by_graphs({}, CompileMode::kGraph, std::move(recorder)) == by_script({}));
}

// ---- Falling back ----

size_t mentions(const std::string& log, const std::string& what) {
  size_t count = 0;
  for (size_t at = log.find(what); at != std::string::npos; at = log.find(what, at + 1)) ++count;
  return count;
}

struct Spoiled {
  GraphOutcome outcome;
  Counts counts;
  std::string log;
};

// Training whose recorder `spoil` has changed.
Spoiled spoiled(const std::function<void(Recorder&)>& spoil) {
  Spoiled result;
  auto recorder = std::make_unique<Recorder>(result.counts);
  spoil(*recorder);
  ::testing::internal::CaptureStderr();
  result.outcome = train_by_graphs({}, CompileMode::kGraph, std::move(recorder));
  result.log = ::testing::internal::GetCapturedStderr();
  return result;
}

[[noreturn]] void run_out_of_memory() {
  throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "CUDA out of memory");
}

TEST(StepGraphs, ACaptureThatIsRefusedEndsTheGraphsAndTheRunGoesOnAsScript) {
  const GraphOutcome expected = by_script({});
  const std::vector<std::pair<std::string, std::function<void()>>> refusals = {
      {"operation not permitted when capturing",
       [] { throw c10::Error(std::string("operation not permitted when capturing")); }},
      {"CUDA graph: end of the capture: no",
       [] { throw Error(ErrorKind::kInternal, "CUDA graph: end of the capture: no"); }},
      {"out of memory on the GPU", run_out_of_memory},
  };
  for (const auto& [reason, refuse] : refusals) {
    for (const int refused : {1, 4}) {
      SCOPED_TRACE(at::str(reason, ", capture ", refused));
      const Spoiled run = spoiled([&, &refuse = refuse](Recorder& recorder) {
        recorder.before_capture = [&, refused](const Work&, int number) {
          if (number == refused) refuse();
        };
      });
      EXPECT_TRUE(run.outcome == expected);
      EXPECT_EQ(run.counts.captures, refused) << "no other is tried";
      EXPECT_EQ(run.counts.launches > 0, refused > 1);
      EXPECT_EQ(mentions(run.log, "compile \"graph\": this run goes on as \"script\""), 1U)
          << run.log;
      EXPECT_EQ(mentions(run.log, reason), 1U) << run.log;
    }
  }
}

// `script` needs as much, and was tried before the first step. The third rehearsal, of a step's
// second micro-batch, has added its gradient when it fails.
TEST(StepGraphs, MemoryThatTheirPoolCannotHaveEndsTheGraphsToo) {
  const GraphOutcome expected = by_script({});
  const Spoiled warm_up = spoiled([](Recorder& recorder) {
    recorder.after_warm_up = [](int number) {
      if (number == 3) run_out_of_memory();
    };
  });
  EXPECT_TRUE(warm_up.outcome == expected);
  EXPECT_EQ(warm_up.counts.warm_ups, 3);
  EXPECT_EQ(mentions(warm_up.log, "of length"), 1U) << warm_up.log;
  const Spoiled launch = spoiled([](Recorder& recorder) {
    recorder.launches = [](int number) {
      if (number == 3) run_out_of_memory();
      return true;
    };
  });
  EXPECT_TRUE(launch.outcome == expected);
  EXPECT_EQ(launch.counts.launches, 3);
}

// The trainer makes micro-batches smaller, where `script` runs out of memory as well.
TEST(StepGraphs, OtherErrorsOfARehearsalPassThrough) {
  Counts counts;
  auto recorder = std::make_unique<Recorder>(counts);
  recorder->after_warm_up = [](int) { throw std::runtime_error("not today"); };
  EXPECT_THROW(train_by_graphs({}, CompileMode::kGraph, std::move(recorder)), std::runtime_error);
  EXPECT_EQ(counts.warm_ups, 1);
}

// ---- Memory ----

// `script` and the rehearsals, at a limit that holds the activations once. A refused capture's
// must be given back before `script` asks for its own.
TEST(StepGraphs, ARefusedCaptureGivesItsMemoryBack) {
  const GraphCase test{"adamw", at::kBFloat16};
  const GraphOutcome expected = by_script(test);
  size_t script = 0, pool = 0;
  {
    PooledMemory memory;
    train_by_graphs(test, CompileMode::kScript, nullptr);
    script = memory.peak();
  }
  {
    PooledMemory memory;
    train_by_graphs(test, CompileMode::kGraph, std::make_unique<PooledRecorder>(memory));
    pool = memory.peak_of_pool();
  }
  ASSERT_GT(pool, script / 8) << "too small a part to be seen";
  PooledMemory memory(script + pool / 2);
  const auto refuse = [] { throw std::runtime_error("operation not permitted"); };
  ::testing::internal::CaptureStderr();
  const GraphOutcome outcome =
      train_by_graphs(test, CompileMode::kGraph, std::make_unique<PooledRecorder>(memory, refuse));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(mentions(log, "operation not permitted"), 1U) << log;
  EXPECT_TRUE(outcome == expected);
}

// ---- Packed rows ----

// The number of segments decides the order of FlashAttention's sums.
TEST(StepGraphs, AttentionHasAsManySegmentsAsInScript) {
  const auto segments = [](const std::function<void(const GraphCase&)>& training) {
    const testing::OperatorCalls calls("lm::rope_attention");
    training({"adamw", at::kFloat, at::kCPU, /*packed=*/true});
    std::vector<int64_t> counts;
    for (const auto& inputs : calls.inputs()) counts.push_back(inputs.at(5).toTensor().numel() - 1);
    return counts;
  };
  const std::vector<int64_t> script = segments([](const GraphCase& test) { by_script(test); });
  Counts counts;
  EXPECT_EQ(segments([&](const GraphCase& test) { by_graphs(test, counts); }), script);
  EXPECT_GT(script.size(), 40U);
  EXPECT_TRUE(std::all_of(script.begin(), script.end(), [](int64_t count) {
    return std::has_single_bit(static_cast<uint64_t>(count));
  }));
}

// ---- In a run ----

// As a config is resolved where there are graphs.
struct GraphRun : TinyRun {
  explicit GraphRun(const Json& changes) : TinyRun(changes) {
    config.compile = CompileMode::kGraph;
  }
};

TEST(StepGraphs, ARunResumesToTheBitsOfScript) {
  const std::vector<Json> runs = {
      Json::object(),
      {{"optimizer", {{"type", "lion"}, {"betas", {0.9, 0.99}}}}},
      {{"optimizer", {{"type", "ademamix"}, {"betas", {0.9, 0.99, 0.999}}}}},
      {{"sequence", {{"batching", "pack"}, {"schedule", {{"type", "constant"}}}}}},
      // Overflows, so that batches are skipped and the loss scale changes.
      {{"precision", "fp16"}, {"model", {{"initializer_range", 1.0}}}},
      {{"clip", {{"type", "value"}, {"max", 0.01}}}},
  };
  for (const Json& changes : runs) {
    SCOPED_TRACE(changes.dump());
    const TinyRun script(changes);
    script.trainer().run();
    const GraphRun graph(changes);
    graph.trainer().run();
    EXPECT_TRUE(graph.bytes(40) == script.bytes(40));
    const std::string whole = graph.bytes(40);
    for (const int64_t step : {5, 20}) {
      graph.trainer(step).run();
      EXPECT_TRUE(graph.bytes(40) == whole) << step;
    }
    EXPECT_EQ(graph.events("skip").size(), script.events("skip").size());
  }
}

// The guard stands between the two graphs: what it refuses is never applied.
TEST(StepGraphs, TheGuardKeepsAnUpdateFromBeingLaunched) {
  for (const char* policy : {"skip", "rollback"}) {
    const Json changes = {{"guard", {{"on_nonfinite", policy}}}};
    std::vector<std::string> weights;
    for (const CompileMode compile : {CompileMode::kScript, CompileMode::kGraph}) {
      TinyRun tiny(changes);
      tiny.config.compile = compile;
      Trainer trainer = tiny.trainer();
      const auto spoil = [](const Batch& batch, double& loss, const at::Tensor& grad) {
        if (batch.index == 12) loss = NAN;
        if (batch.index == 23) grad[3] = HUGE_VAL;
      };
      trainer.run({.after_backward = spoil});
      EXPECT_EQ(tiny.events(policy).size(), 2U);
      weights.push_back(tiny.bytes(40));
    }
    EXPECT_TRUE(weights[0] == weights[1]) << policy;
  }
}

TEST(StepGraphs, OnACpuTheConfigFallsBackToScriptAndSaysWhy) {
  ::testing::internal::CaptureStderr();
  const TinyRun tiny(Json{{"compile", "graph"}});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(tiny.config.compile, CompileMode::kScript);
  EXPECT_NE(log.find("compile \"graph\" is \"script\" here"), std::string::npos) << log;
  EXPECT_NE(log.find("graphs are captured on a GPU"), std::string::npos) << log;
}

}  // namespace
}  // namespace lmtrain
