#include "train/step.h"

#include "support/tensors.h"
#include "train/tiny_model.h"

namespace lmtrain {
namespace {

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

}  // namespace
}  // namespace lmtrain
