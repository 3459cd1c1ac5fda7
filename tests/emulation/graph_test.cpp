// Graphs of the CUDA kernels, emulated: kernels are recorded with the arguments of their call, as
// CUDA does. So a number that is passed by value stays what it was, and one that is read from
// memory follows.
#include "arrays.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain::emulated {
namespace {

int some_stream;
void* const kStream = &some_stream;

class Graph {
 public:
  template <class Work>
  explicit Graph(const Work& work) {
    cuda::begin_capture(kStream);
    work(cuda::Call{cuda::ElementType::kFloat, kStream});
    graph_ = cuda::end_capture(kStream);
  }
  ~Graph() { cuda::destroy_graph(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() const { cuda::launch_graph(graph_, nullptr); }

 private:
  void* graph_;
};

constexpr int64_t kCount = 1027;

TEST(Graph, IsDoneWhenLaunchedAndAsOften) {
  Array<float> grad(kCount), sum(kCount);
  grad.fill(1);
  for (int64_t i = 0; i < kCount; ++i) sum.set(i, 0);
  const Graph graph([&](const cuda::Call& call) {
    cuda::accumulate(call, grad.data(), sum.data(), kCount, /*first=*/false);
  });
  EXPECT_EQ(sum.at(5), 0);
  for (int launch = 1; launch <= 3; ++launch) {
    graph.launch();
    EXPECT_FLOAT_EQ(static_cast<float>(sum.at(5)), static_cast<float>(launch * grad.at(5)));
  }
  grad.fill(2);
  for (int64_t i = 0; i < kCount; ++i) sum.set(i, 0);
  graph.launch();
  EXPECT_EQ(sum.at(5), grad.at(5));
}

// Five updates whose numbers all change, directly and by one graph.
struct Updates {
  Updates()
      : master(kCount), fast(kCount), slow(kCount), square(kCount), grad(kCount), work(kCount) {
    master.fill(1);
    for (int64_t i = 0; i < kCount; ++i) {
      fast.set(i, 0);
      slow.set(i, 0);
      square.set(i, 0);
    }
  }
  std::vector<double> values() const {
    return together(
        {master.values(), fast.values(), slow.values(), square.values(), work.values()});
  }
  Array<float> master, fast, slow, square, grad, work;
};

void launch(const cuda::Call& call, Updates& u, const AdamWConstants* constants) {
  cuda::adamw(call, u.master.data(), u.fast.data(), u.square.data(), u.grad.data(), u.work.data(),
              kCount, constants);
}
void launch(const cuda::Call& call, Updates& u, const LionConstants* constants) {
  cuda::lion(call, u.master.data(), u.fast.data(), u.grad.data(), u.work.data(), kCount, constants);
}
void launch(const cuda::Call& call, Updates& u, const AdEMAMixConstants* constants) {
  cuda::ademamix(call, u.master.data(), u.fast.data(), u.slow.data(), u.square.data(),
                 u.grad.data(), u.work.data(), kCount, constants);
}

// Every number of them another one for every step.
template <class Constants>
Constants constants_of(int step) {
  std::array<float, sizeof(Constants) / sizeof(float)> numbers;
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 0.5F / static_cast<float>(step + static_cast<int>(i) + 1);
  Constants constants;
  std::memcpy(&constants, numbers.data(), sizeof constants);
  return constants;
}

enum class Way { kDirectly, kByGraph, kByGraphOfTheFirstNumbers };

template <class Constants>
class UpdateGraphs : public ::testing::Test {
 protected:
  static std::vector<double> after_five(Way way) {
    Updates updates;
    Constants constants = constants_of<Constants>(0);
    const Graph graph([&](const cuda::Call& call) { launch(call, updates, &constants); });
    for (int step = 0; step < 5; ++step) {
      updates.grad.fill(10 + static_cast<uint64_t>(step));
      if (way != Way::kByGraphOfTheFirstNumbers) constants = constants_of<Constants>(step);
      if (way == Way::kDirectly) {
        launch({cuda::ElementType::kFloat, nullptr}, updates, &constants);
      } else {
        graph.launch();
      }
    }
    return updates.values();
  }
};
using EveryRule = ::testing::Types<AdamWConstants, LionConstants, AdEMAMixConstants>;
TYPED_TEST_SUITE(UpdateGraphs, EveryRule);

TYPED_TEST(UpdateGraphs, TakeTheirNumbersFromMemory) {
  const std::vector<double> directly = TestFixture::after_five(Way::kDirectly);
  EXPECT_EQ(TestFixture::after_five(Way::kByGraph), directly);
  EXPECT_NE(TestFixture::after_five(Way::kByGraphOfTheFirstNumbers), directly);
}

// The scale of loss and gradient changes from batch to batch.
TEST(Graph, CrossEntropyTakesItsScaleFromMemory) {
  constexpr int64_t kVocab = 67;
  const std::vector<int64_t> targets = {3, -100, 66};
  double scale = 0.5;
  Array<float> logits(3 * kVocab), losses(3);
  const auto compute = [&](const cuda::Call& call) {
    cuda::cross_entropy(call, logits.data(), targets.data(), losses.data(), 3, kVocab, &scale, 0);
  };
  const Graph graph(compute);
  for (const double now : {0.5, 0.25, 3.0}) {
    scale = now;
    logits.fill(1);
    graph.launch();
    const std::vector<double> by_graph = logits.values();
    logits.fill(1);
    compute({cuda::ElementType::kFloat, nullptr});
    EXPECT_EQ(by_graph, logits.values());
  }
}

TEST(Graph, ACaptureThatFailsIsAnErrorAndLeavesNothing) {
  cuda::begin_capture(kStream);
  emulation::launch(
      "test", +[](int) {}, 1, 2048, 0, kStream)(0);
  EXPECT_THROW(cuda::check_launch("none"), Error);
  EXPECT_THROW(cuda::end_capture(kStream), Error);
  EXPECT_NO_THROW(cuda::check_launch("none"));
  int done = 0;
  emulation::launch(
      "test", +[](int* flag) { *flag = 1; }, 1, 1, 0, kStream)(&done);
  EXPECT_EQ(done, 1);  // at once: no capture is under way
}

TEST(Graph, ACaptureThatIsAbandonedLeavesNothing) {
  Array<float> grad(kCount), sum(kCount);
  grad.fill(1);
  cuda::begin_capture(kStream);
  cuda::accumulate({cuda::ElementType::kFloat, kStream}, grad.data(), sum.data(), kCount, true);
  cuda::abandon_capture(kStream);
  EXPECT_TRUE(std::isnan(sum.at(0)));  // nothing was done
  cuda::accumulate({cuda::ElementType::kFloat, kStream}, grad.data(), sum.data(), kCount, true);
  EXPECT_EQ(sum.values(), grad.values());
}

TEST(Graph, TheDefaultStreamIsNotCaptured) { EXPECT_THROW(cuda::begin_capture(nullptr), Error); }

}  // namespace
}  // namespace lmtrain::emulated
