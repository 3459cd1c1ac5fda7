#include "batching/source_groups.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

std::vector<int64_t> documents_of(const DocumentList& list) {
  std::vector<int64_t> documents;
  list.for_each([&](int64_t document) { documents.push_back(document); });
  for (size_t i = 0; i < documents.size(); ++i) {
    EXPECT_EQ(list[static_cast<int64_t>(i)], documents[i]);
  }
  EXPECT_EQ(list.size(), static_cast<int64_t>(documents.size()));
  return documents;
}

TEST(SourceGroups, EqualWeightsAreOneGroup) {
  const TokenShard shard = make_shard({5, 1, 9, 0, 3, 7});
  const SourceGroups groups = group_sources(shard, {{0, 2}, {1, 0}, {3, 1}, {4, 0}, {4, 2}},
                                            {{"a", 1}, {"b", 2}, {"c", 1}, {"d", 3}});
  ASSERT_EQ(groups.groups.size(), 3U);
  EXPECT_EQ(documents_of(groups.groups[0].documents), (std::vector<int64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(documents_of(groups.groups[1].documents), (std::vector<int64_t>{3}));
  EXPECT_EQ(documents_of(groups.groups[2].documents), (std::vector<int64_t>{}));
  EXPECT_EQ(groups.group_of_source, (std::vector<size_t>{0, 1, 0, 2}));
  EXPECT_EQ(groups.sources[0].documents, 2);
  EXPECT_EQ(groups.sources[0].targets, 8);
  EXPECT_EQ(groups.sources[1].targets, 0);
  EXPECT_EQ(groups.sources[2].documents, 3);
  EXPECT_EQ(groups.sources[2].targets, 4 + 2 + 6);
  EXPECT_EQ(groups.sources[3].documents, 0);
}

TEST(SourceGroups, WithoutRunsAllIsOfTheFirst) {
  const TokenShard shard = make_shard({5, 1, 9});
  const SourceGroups groups = group_sources(shard, {}, {});
  EXPECT_EQ(documents_of(groups.groups.at(0).documents), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(groups.sources.at(0).targets, 12);
}

TEST(SourceGroups, RunsThatDoNotFitAreRefused) {
  const TokenShard shard = make_shard({5, 1, 9});
  const std::vector<DataSourceConfig> one = {{"a", 1}};
  EXPECT_THROW(group_sources(shard, {{1, 0}}, one), Error);
  EXPECT_THROW(group_sources(shard, {{0, 1}}, one), Error);
  EXPECT_THROW(group_sources(shard, {{0, -1}}, one), Error);
  EXPECT_THROW(group_sources(shard, {{0, 0}, {4, 0}}, one), Error);
  EXPECT_THROW(group_sources(shard, {{0, 0}, {2, 0}, {1, 0}}, one), Error);
}

}  // namespace
}  // namespace lmtrain
