#include "training/step.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>

#include "base/error.h"
#include "ops/flash_attention.h"
#include "support/tensors.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::kTinyLength;
using testing::largest_difference;
using testing::random_ids;
using testing::TinyModel;

// Ragged rows: row r predicts `targets[r]` positions, the rest is padding.
Batch ragged_batch(const std::vector<int64_t>& targets) {
  Batch batch;
  batch.rows = static_cast<int64_t>(targets.size());
  batch.length = testing::kTinyLength;
  batch.inputs = random_ids(batch.rows * batch.length, 1);
  batch.targets = random_ids(batch.rows * batch.length, 2);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int64_t count = targets[static_cast<size_t>(row)];
    for (int64_t i = count; i < batch.length; ++i) {
      batch.inputs[static_cast<size_t>(row * batch.length + i)] = 0;
      batch.targets[static_cast<size_t>(row * batch.length + i)] = kNoTarget;
    }
    batch.num_targets += count;
  }
  return batch;
}

struct Step {
  Step(TinyModel& model, const Batch& batch, int64_t micro_tokens) : grad(model.new_gradient()) {
    // What an earlier step left must not count. The gaps between tensors stay 0 throughout.
    for (const ParameterSpec& spec : model.parameters.layout().parameters()) {
      grad.narrow(0, spec.offset, spec.numel()).fill_(1e9);
    }
    loss = accumulate_batch(model.llama, batch, micro_tokens, grad);
  }
  at::Tensor grad;
  double loss = 0;
};

// What falls out depends on neither micro-batches, compilation, activation checkpointing nor
// shares.
TEST(Step, DropoutIsAFunctionOfTheBatch) {
  const testing::Threads one_thread{1};
  struct Outcome {
    double loss;
    at::Tensor grad;
  };
  Batch batch = ragged_batch({16, 9, 7, 16, 3, 2, 12, 5});
  const auto outcome = [&](double dropout, int64_t micro_rows, bool checkpointing,
                           CompileMode compile, uint64_t seed = 1) {
    ModelConfig config = testing::tiny_model_config();
    config.dropout = dropout;
    config.activation_checkpointing = checkpointing;
    Parameters parameters(ParameterLayout(config, testing::kTinyVocabulary), at::kFloat, at::kCPU);
    parameters.initialize(/*seed=*/7, config.initializer_range);
    Llama llama(config, parameters, testing::kTinyLength, compile, 0, false, seed);
    const at::Tensor grad = at::zeros_like(parameters.master());
    return Outcome{accumulate_batch(llama, batch, micro_rows * batch.length, grad), grad};
  };
  const Outcome whole = outcome(0.2, 8, false, CompileMode::kEager);
  for (const bool checkpointing : {false, true}) {
    for (const CompileMode compile : {CompileMode::kEager, CompileMode::kScript}) {
      for (const int64_t micro_rows : {1, 3, 8}) {
        const Outcome cut = outcome(0.2, micro_rows, checkpointing, compile);
        EXPECT_NEAR(cut.loss, whole.loss, 1e-6);
        EXPECT_LT(largest_difference(cut.grad, whole.grad), 1e-6);
      }
    }
  }
  const auto differs = [&](const Outcome& other) {
    EXPECT_GT(std::abs(other.loss - whole.loss), 1e-4);
  };
  differs(outcome(0, 8, false, CompileMode::kEager));
  differs(outcome(0.2, 8, false, CompileMode::kEager, /*seed=*/2));
  batch.index = 1;
  differs(outcome(0.2, 8, false, CompileMode::kEager));
  // The second half of the rows, as a share of its own.
  batch.index = 0;
  Batch share = batch;
  const auto half = static_cast<std::ptrdiff_t>(4 * batch.length);
  share.rows = 4;
  share.first_row = 4;
  share.inputs.erase(share.inputs.begin(), share.inputs.begin() + half);
  share.targets.erase(share.targets.begin(), share.targets.begin() + half);
  const auto part = [&](Batch& rows, int64_t first, int64_t end) {
    ModelConfig config = testing::tiny_model_config();
    config.dropout = 0.2;
    Parameters parameters(ParameterLayout(config, testing::kTinyVocabulary), at::kFloat, at::kCPU);
    parameters.initialize(/*seed=*/7, config.initializer_range);
    Llama llama(config, parameters, testing::kTinyLength, CompileMode::kEager, 0, false, 1);
    const at::Tensor grad = at::zeros_like(parameters.master());
    return accumulate_rows(llama, rows, {first, end}, 1024, grad);
  };
  EXPECT_NEAR(part(share, 0, 4), part(batch, 4, 8), 1e-9);
  EXPECT_NEAR(part(batch, 0, 4) + part(share, 0, 4), whole.loss, 1e-6);
}

TEST(Step, MicroBatchesChangeNothing) {
  TinyModel model;
  const std::vector<std::vector<int64_t>> shapes = {
      {16, 16, 16, 16, 16, 16, 16, 16},
      {16, 1, 7, 16, 3, 2, 12, 5},
      {16, 9, 0, 4, 0, 0, 1, 0},  // masked rows among the others
      {0, 0, 0, 0, 11, 2, 0, 0},  // a first micro-batch without any target
      {5},
      {3, 16, 8},  // no power of two
  };
  for (const auto& shape : shapes) {
    const Batch batch = ragged_batch(shape);
    const Step whole(model, batch, batch.rows * batch.length);
    EXPECT_GT(whole.loss, 0);
    for (const int64_t rows : {1, 2, 3, 4}) {
      const Step parts(model, batch, rows * batch.length);
      EXPECT_NEAR(parts.loss, whole.loss, 1e-6 * whole.loss) << rows;
      EXPECT_LT(largest_difference(parts.grad, whole.grad), 1e-6) << rows;
    }
  }
}

TEST(Step, LossIsTheMeanOverTheTargetsOfTheWholeBatch) {
  TinyModel model;
  const Batch batch = ragged_batch({16, 2, 9});
  double nats = 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    Batch one;
    one.rows = 1;
    one.length = batch.length;
    const auto begin = static_cast<std::ptrdiff_t>(row * batch.length);
    const auto end = begin + static_cast<std::ptrdiff_t>(batch.length);
    one.inputs.assign(batch.inputs.begin() + begin, batch.inputs.begin() + end);
    one.targets.assign(batch.targets.begin() + begin, batch.targets.begin() + end);
    one.num_targets = 1;  // a sum
    nats += Step(model, one, batch.length).loss;
  }
  EXPECT_NEAR(Step(model, batch, 32).loss, nats / 27.0, 1e-6 * nats);
}

TEST(Step, MaskedRowsAddNothing) {
  TinyModel model;
  const Step with(model, ragged_batch({16, 7, 0, 0}), 64);
  const Step without(model, ragged_batch({16, 7}), 64);
  EXPECT_NEAR(with.loss, without.loss, 1e-6);
  EXPECT_LT(largest_difference(with.grad, without.grad), 1e-6);
  const Step nothing(model, ragged_batch({0, 0}), 16);
  EXPECT_EQ(nothing.loss, 0);
  EXPECT_EQ(largest_difference(nothing.grad, model.new_gradient()), 0);
}

// Rows of several documents, cut anywhere between rows.
TEST(Step, SegmentsStayWithTheirRows) {
  TinyModel model;
  Batch batch = ragged_batch({16, 16, 12, 16, 7});
  const Step without(model, batch, batch.rows * batch.length);
  batch.segments = {0, 3, 4, 16, 32, 40, 45, 48, 64, 70};
  const Step whole(model, batch, batch.rows * batch.length);
  EXPECT_GT(std::abs(whole.loss - without.loss), 1e-3);
  for (const int64_t rows : {1, 2, 3, 4}) {
    const Step parts(model, batch, rows * batch.length);
    EXPECT_NEAR(parts.loss, whole.loss, 1e-6 * whole.loss) << rows;
    EXPECT_LT(largest_difference(parts.grad, whole.grad), 1e-6) << rows;
  }
}

// libtorch's CPU allocator, but that it fails in the words of cuDNN while that may compute
// attention: at the allocation of this number, in the forward or in the backward.
class CudnnRefuses : public c10::Allocator {
 public:
  explicit CudnnRefuses(int at) : at_(at), usual_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, /*priority=*/1);
  }
  ~CudnnRefuses() override {
    c10::SetCPUAllocator(usual_, /*priority=*/1);
    allow_cudnn_attention(true);
  }
  CudnnRefuses(const CudnnRefuses&) = delete;
  CudnnRefuses& operator=(const CudnnRefuses&) = delete;

  c10::DataPtr allocate(size_t size) override {
    TORCH_CHECK(!cudnn_attention_allowed() || ++count_ != at_,
                "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the "
                "graph.");
    return usual_->allocate(size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
  int count() const { return count_; }

 private:
  const int at_;
  std::atomic<int> count_ = 0;
  c10::Allocator* usual_;
};

TEST(Step, WhereCudnnRefusesAShapeItsAttentionIsTurnedOffAndTheStepIsMadeAgain) {
  TinyModel model;
  const Batch batch = ragged_batch({16, 5, 16, 9});
  const Step expected(model, batch, 32);
  int allocations = 0;
  {
    const CudnnRefuses never(-1);
    const Step step(model, batch, 32);
    allocations = never.count();
  }
  // In the first micro-batch and in the second, which adds to what the first has put.
  for (const int at : {allocations / 4, 3 * allocations / 4}) {
    const CudnnRefuses refuses(at);
    ::testing::internal::CaptureStderr();
    const Step step(model, batch, 32);
    const Step next(model, batch, 32);
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_FALSE(cudnn_attention_allowed());
    for (const Step* made : {&step, &next}) {
      EXPECT_EQ(made->loss, expected.loss);
      EXPECT_TRUE(testing::same_bits(made->grad, expected.grad));
    }
    const size_t said = log.find("cuDNN does not take rows of length 16");
    EXPECT_NE(said, std::string::npos) << log;
    EXPECT_EQ(log.find("cuDNN does not take", said + 1), std::string::npos) << "twice: " << log;
    EXPECT_NE(log.find("No execution plans support the graph"), std::string::npos) << log;
  }
}

// Full rows, every second one of two segments.
Batch whole_batch(int64_t rows) {
  Batch batch;
  batch.rows = batch.batch_rows = rows;
  batch.length = kTinyLength;
  batch.inputs = random_ids(rows * kTinyLength, 1);
  batch.targets = random_ids(rows * kTinyLength, 2);
  batch.num_targets = rows * kTinyLength;
  for (int64_t row = 0; row < rows; ++row) {
    batch.segments.push_back(static_cast<int32_t>(row * kTinyLength));
    if (row % 2 == 1) batch.segments.push_back(static_cast<int32_t>(row * kTinyLength + 5));
  }
  return batch;
}

Batch share_of(const Batch& whole, const RowRange& rows) {
  Batch share = whole;
  share.first_row = rows.first;
  share.rows = rows.end - rows.first;
  const auto begin = static_cast<std::ptrdiff_t>(rows.first * whole.length);
  const auto end = static_cast<std::ptrdiff_t>(rows.end * whole.length);
  share.inputs.assign(whole.inputs.begin() + begin, whole.inputs.begin() + end);
  share.targets.assign(whole.targets.begin() + begin, whole.targets.begin() + end);
  share.segments.clear();
  for (const int32_t segment : whole.segments) {
    if (begin <= segment && segment < end)
      share.segments.push_back(segment - static_cast<int32_t>(begin));
  }
  return share;
}

struct Sums {
  at::Tensor grad;
  std::vector<double> losses;
};

Sums sums_of(TinyModel& model, const Batch& whole, int64_t parts, const BatchShare& share) {
  Sums sums{model.new_gradient(), {}};
  StepParts of_share(parts, share);
  const Batch own = share_of(whole, rows_of_part(whole.batch_rows, share.rank, share.count));
  for (int again = 0; again < 2; ++again)  // what the first step left must not count
    sums.losses = of_share.accumulate(model.llama, own, 2 * kTinyLength, sums.grad, 1, nullptr);
  return sums;
}

// Neighbours first, as distributed/tree_sum.h adds them.
at::Tensor tree(std::vector<at::Tensor> leaves) {
  while (leaves.size() > 1) {
    std::vector<at::Tensor> next;
    for (size_t i = 0; i < leaves.size(); i += 2) next.push_back(leaves[i] + leaves[i + 1]);
    leaves = next;
  }
  return leaves.front();
}

TEST(StepParts, TheBitsDoNotDependOnHowManyShareTheParts) {
  TinyModel model;
  for (const int64_t rows : {3, 8, 16, 21}) {
    const Batch whole = whole_batch(rows);
    const Sums one = sums_of(model, whole, 8, {0, 1});
    EXPECT_EQ(one.losses.size(), 8U);
    for (const int64_t count : {2, 4, 8}) {
      std::vector<at::Tensor> grads;
      std::vector<double> losses;
      for (int64_t rank = 0; rank < count; ++rank) {
        const Sums share = sums_of(model, whole, 8, {rank, count});
        grads.push_back(share.grad);
        losses.insert(losses.end(), share.losses.begin(), share.losses.end());
      }
      EXPECT_EQ(losses, one.losses) << rows << " rows, " << count << " shares";
      EXPECT_TRUE(at::equal(tree(grads), one.grad)) << rows << " rows, " << count << " shares";
    }
    const at::Tensor grad = model.new_gradient();
    const double loss = accumulate_batch(model.llama, whole, 2 * kTinyLength, grad);
    EXPECT_NEAR(std::accumulate(one.losses.begin(), one.losses.end(), 0.0), loss, 1e-6);
    EXPECT_LT(largest_difference(one.grad, grad), 1e-6);
  }
}

// Elements are told of once, when they have their final value.
TEST(StepParts, TellsOfElementsThatAreFinished) {
  TinyModel model;
  const Batch whole = whole_batch(16);
  for (const BatchShare& share : {BatchShare{0, 1}, BatchShare{1, 4}, BatchShare{7, 8}}) {
    const Batch own = share_of(whole, rows_of_part(whole.batch_rows, share.rank, share.count));
    for (const double loss_scale : {1.0, 1024.0}) {
      StepParts parts(8, share), told_parts(8, share);
      const at::Tensor expected = model.new_gradient(), grad = model.new_gradient();
      const at::Tensor told = model.new_gradient(), times = model.new_gradient();
      const auto losses =
          parts.accumulate(model.llama, own, kTinyLength, expected, loss_scale, nullptr);
      const auto finished = [&](int64_t begin, int64_t size) {
        told.narrow(0, begin, size).copy_(grad.narrow(0, begin, size));
        times.narrow(0, begin, size).add_(1);
      };
      EXPECT_EQ(
          told_parts.accumulate(model.llama, own, kTinyLength, grad, loss_scale, nullptr, finished),
          losses);
      EXPECT_TRUE(at::equal(grad, expected));
      EXPECT_TRUE(at::equal(told, expected));
      EXPECT_EQ(times.sum().item<double>(),
                static_cast<double>(model.parameters.layout().num_parameters()));
      EXPECT_EQ(times.max().item<double>(), 1);
    }
  }
}

// One part dealt to the wrong process shows.
TEST(StepParts, AnotherDealingIsOtherBits) {
  TinyModel model;
  const Batch whole = whole_batch(16);
  std::vector<at::Tensor> leaves;
  for (int64_t part = 0; part < 8; ++part)
    leaves.push_back(sums_of(model, whole, 8, {part, 8}).grad);
  const at::Tensor right = tree(leaves);
  EXPECT_TRUE(at::equal(right, sums_of(model, whole, 8, {0, 1}).grad));
  std::swap(leaves[3], leaves[4]);
  EXPECT_FALSE(at::equal(tree(leaves), right));
}

TEST(StepParts, NeedsABinaryTree) {
  EXPECT_THROW(StepParts(6, {0, 1}), Error);
  EXPECT_THROW(StepParts(8, {0, 3}), Error);
  EXPECT_THROW(StepParts(4, {0, 8}), Error);
}

}  // namespace

}  // namespace lmtrain
