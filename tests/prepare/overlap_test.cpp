#include "prepare/overlap.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace lmtrain {
namespace {

TEST(OverlapFinder, CountsDocumentsAndBytes) {
  OverlapFinder finder;
  finder.add_eval(1, 10);
  finder.add_eval(2, 100);
  finder.add_eval(2, 100);
  finder.add_eval(3, 0);  // empty
  for (const uint64_t hash : {2, 2, 3, 4, 5}) finder.add_train(hash);
  const Overlap overlap = finder.result();
  EXPECT_EQ(overlap.documents, 2);
  EXPECT_EQ(overlap.of_documents, 3);
  EXPECT_EQ(overlap.bytes, 200);
  EXPECT_EQ(overlap.of_bytes, 210);
}

TEST(OverlapFinder, SamplesManyInConstantMemory) {
  OverlapFinder finder;
  for (uint64_t i = 0; i < 300'000; ++i) finder.add_eval(mix64(i), 5);
  EXPECT_EQ(finder.entries().size(), 65536U);
  for (uint64_t i = 0; i < 300'000; i += 4) finder.add_train(mix64(i));
  const Overlap overlap = finder.result();
  EXPECT_EQ(overlap.of_documents, 65536);
  EXPECT_NEAR(static_cast<double>(overlap.documents), 65536 / 4.0, 500);
}

}  // namespace
}  // namespace lmtrain
