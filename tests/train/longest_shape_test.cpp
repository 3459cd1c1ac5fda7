#include "train/longest_shape.h"

#include "support/tensors.h"
#include "train/step.h"
#include "train/tiny_model.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::random_ids;
using testing::same_bits;
using testing::TinyModel;

BatchConfig batch_config(int64_t tokens, int64_t micro_tokens) {
  BatchConfig config;
  config.tokens = tokens;
  config.micro_tokens = micro_tokens;
  return config;
}

Batch random_batch() {
  Batch batch;
  batch.rows = 4;
  batch.length = testing::kTinyLength;
  batch.inputs = random_ids(batch.rows * batch.length, 1);
  batch.targets = random_ids(batch.rows * batch.length, 2);
  batch.num_targets = batch.rows * batch.length;
  return batch;
}

TEST(LongestShape, ChangesNoBitOfWhatFollows) {
  for (const char* batching : {"bucket", "pack"}) {
    SequenceConfig sequence;
    sequence.batching = batching;
    TinyModel tried;
    TinyModel untried;
    const at::Tensor grad = tried.new_gradient();
    const at::Tensor expected = untried.new_gradient();
    try_longest_shape(tried.llama, testing::kTinyLength, sequence, batch_config(128, 64), grad);
    EXPECT_TRUE(same_bits(tried.parameters.master(), untried.parameters.master()));
    const double loss = accumulate_batch(tried.llama, random_batch(), 32, grad);
    EXPECT_EQ(loss, accumulate_batch(untried.llama, random_batch(), 32, expected));
    EXPECT_TRUE(same_bits(grad, expected));
    EXPECT_GT(grad.abs().max().item<double>(), 0);
  }
}

TEST(LongestShape, SaysWhatDoesNotFitAndWhatToLower) {
  TinyModel model;
  const auto huge = batch_config(int64_t{1} << 50, int64_t{1} << 50);
  const std::string message = error_of(ErrorKind::kMemory, [&] {
    try_longest_shape(model.llama, testing::kTinyLength, SequenceConfig{}, huge,
                      model.new_gradient());
  });
  EXPECT_NE(message.find("rows of length 16"), std::string::npos) << message;
  EXPECT_NE(message.find("batch.micro_tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("out of memory"), std::string::npos) << message;
}

// What is no shortage of memory keeps its own kind and words.
TEST(LongestShape, OtherErrorsPassThrough) {
  TinyModel model;
  const std::string message = error_of(ErrorKind::kInternal, [&] {
    try_longest_shape(model.llama, 2 * testing::kTinyLength, SequenceConfig{},
                      batch_config(128, 64), model.new_gradient());
  });
  EXPECT_EQ(message.find("memory"), std::string::npos) << message;
}

}  // namespace
}  // namespace lmtrain
