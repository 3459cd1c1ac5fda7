// A step in parts: the same bits however its parts are dealt out, and not with another dealing.
#include "training/step_parts.h"

#include "base/error.h"
#include "support/tensors.h"
#include "training/step.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::kTinyLength;
using testing::largest_difference;
using testing::random_ids;
using testing::TinyModel;

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
