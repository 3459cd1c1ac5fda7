// Captured graphs on a GPU: the bits of `script`, from twenty steps of several shapes.
#include "gpu.h"
#include "training/graph_training.h"

namespace lmtrain {
namespace {

using testing::gpu;
using testing::GraphCase;
using testing::GraphOutcome;
using testing::train_by_graphs;

// Attention's backward adds in any order unless it is told not to.
class Deterministic {
 public:
  Deterministic() { use_deterministic_algorithms(); }
  ~Deterministic() {
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(false, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(true);
    context.setDeterministicCuDNN(false);
    context.setSDPUseMemEfficient(true);
    context.setSDPUseCuDNN(true);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
};

struct Counts {
  int captures = 0, launches = 0;
};

class Recorder : public GraphRecorder {
 public:
  Recorder(Counts& counts, const at::Device& device)
      : counts_(counts), inner_(graph_recorder(device)) {}
  void warm_up(const Work& work) override { inner_->warm_up(work); }
  std::unique_ptr<CapturedGraph> capture(const Work& work) override {
    ++counts_.captures;
    return std::make_unique<Graph>(counts_, inner_->capture(work));
  }

 private:
  class Graph : public CapturedGraph {
   public:
    Graph(Counts& counts, std::unique_ptr<CapturedGraph> inner)
        : counts_(counts), inner_(std::move(inner)) {}
    void launch() override {
      ++counts_.launches;
      inner_->launch();
    }

   private:
    Counts& counts_;
    std::unique_ptr<CapturedGraph> inner_;
  };

  Counts& counts_;
  std::unique_ptr<GraphRecorder> inner_;
};

void expect_the_bits_of_script(const GraphCase& test) {
  SCOPED_TRACE(at::str(test.optimizer, ' ', test.dtype, test.packed ? " packed" : "",
                       test.fp8 ? " in fp8" : ""));
  const Deterministic deterministic;
  const GraphOutcome script = train_by_graphs(test, CompileMode::kScript, nullptr);
  ASSERT_TRUE(train_by_graphs(test, CompileMode::kScript, nullptr) == script)
      << "script itself differs";
  Counts counts;
  const GraphOutcome graph =
      train_by_graphs(test, CompileMode::kGraph, std::make_unique<Recorder>(counts, test.device));
  EXPECT_TRUE(graph == script);
  EXPECT_GT(counts.launches, counts.captures);
  EXPECT_GT(counts.captures, 0) << "nothing was captured";
}

TEST(GpuGraphs, GiveTheBitsOfScript) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  if (!why_no_graphs(*device).empty()) GTEST_SKIP() << why_no_graphs(*device);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const char* optimizer : {"adamw", "lion", "ademamix", "muon"}) {
      for (const bool packed : {false, true}) {
        expect_the_bits_of_script({optimizer, dtype, *device, packed});
      }
    }
  }
}

// With whatever kernel of attention is the fastest, as runs have it: near, not equal.
TEST(GpuGraphs, AreNearScriptWithoutDeterminism) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  if (!why_no_graphs(*device).empty()) GTEST_SKIP() << why_no_graphs(*device);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool packed : {false, true}) {
      const GraphCase test{"adamw", dtype, *device, packed};
      SCOPED_TRACE(at::str(dtype, packed ? " packed" : ""));
      const GraphOutcome script = train_by_graphs(test, CompileMode::kScript, nullptr);
      Counts counts;
      const GraphOutcome graph =
          train_by_graphs(test, CompileMode::kGraph, std::make_unique<Recorder>(counts, *device));
      EXPECT_GT(counts.captures, 0) << "nothing was captured";
      ASSERT_EQ(graph.numbers.size(), script.numbers.size());
      for (size_t i = 0; i < script.numbers.size(); ++i) {
        EXPECT_NEAR(graph.numbers[i], script.numbers[i], 2e-2 * std::abs(script.numbers[i]));
      }
    }
  }
}

// The scales of fp8 are found by the graph itself, for every micro-batch anew.
TEST(GpuGraphs, GiveTheBitsOfScriptInFp8) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  if (!why_no_graphs(*device).empty()) GTEST_SKIP() << why_no_graphs(*device);
  const std::string reason = testing::why_no_fp8(*device);
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const bool packed : {false, true}) {
    expect_the_bits_of_script(
        {"adamw", at::kBFloat16, *device, packed, /*checkpointing=*/false, /*fp8=*/true});
  }
}

// What a GPU refuses in a capture ends that capture, and nothing else.
TEST(GpuGraphs, ACaptureThatIsRefusedLeavesTheDeviceAsItWas) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  if (!why_no_graphs(*device).empty()) GTEST_SKIP() << why_no_graphs(*device);
  const auto recorder = graph_recorder(*device);
  const at::Tensor x = at::ones({1000}, at::TensorOptions(*device));
  const Work asks_for_a_number = [&] { x.add_(x.sum().item<double>()); };
  EXPECT_ANY_THROW(recorder->capture(asks_for_a_number));
  EXPECT_EQ(x.sum().item<double>(), 1000);
  const Work adds = [&] { x.add_(1); };
  recorder->warm_up(adds);
  const auto graph = recorder->capture(adds);
  EXPECT_EQ(x.sum().item<double>(), 2000);
  graph->launch();
  graph->launch();
  EXPECT_EQ(x.sum().item<double>(), 4000);
}

}  // namespace
}  // namespace lmtrain
