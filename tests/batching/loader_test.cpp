// The loader gives the order's batches, carries errors over, and lets go at once.
#include "batching/loader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    sequence_.max_length = 64;
    sequence_.min_length = 8;
  }
  BatchOrder order(const RunLength& run) {
    return BatchOrder({.shard = shard_,
                       .fingerprint = "corpus",
                       .sequence = sequence_,
                       .data_seed = 1,
                       .batch_tokens = 256,
                       .run = run});
  }

  TokenShard shard_ = make_shard(random_sizes(1, 100, 700));
  SequenceConfig sequence_;
};

TEST_F(LoaderTest, GivesEveryBatchFromTheFirstOn) {
  const BatchOrder batches = order({.epochs = 2});
  for (const int64_t depth : {1, 4}) {
    for (const int64_t first : {int64_t{0}, int64_t{11}, batches.num_batches() - 1}) {
      Loader loader(batches, first, batches.num_batches(), /*share=*/{}, depth);
      for (int64_t k = first; k < batches.num_batches(); ++k) {
        const Batch got = loader.next();
        const Batch expected = batches.batch(k);
        ASSERT_EQ(got.index, k);
        ASSERT_EQ(got.inputs, expected.inputs);
        ASSERT_EQ(got.targets, expected.targets);
      }
      EXPECT_THROW(loader.next(), Error);
    }
  }
}

TEST_F(LoaderTest, ThrowsWhatWentWrongAfterTheBatchesBeforeIt) {
  const BatchOrder batches = order({.epochs = 1});
  Loader loader(batches, batches.num_batches() - 3);  // has no end, but the order has
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(loader.next());
  for (int i = 0; i < 2; ++i) {
    try {
      loader.next();
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("past the end of the last epoch"),
                std::string::npos);
    }
  }
}

TEST_F(LoaderTest, EndsWithoutBeingEmptied) {
  const BatchOrder batches = order({.steps = 1000});
  for (int i = 0; i < 50; ++i) Loader unused(batches, i);
  Loader used(batches, 0);
  EXPECT_EQ(used.next().index, 0);
}

}  // namespace
}  // namespace lmtrain
