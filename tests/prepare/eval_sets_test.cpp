// The sets of held-out text: which document is of which, and what an evaluation takes of each.
#include "prepare/eval_sets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "base/file.h"
#include "config/parse.h"
#include "config/settings.h"
#include "prepare/prepare_fixture.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Sizes = std::vector<int64_t>;

TEST(DivideBudget, IsInProportion) {
  EXPECT_EQ(divide_budget(100, {500, 300, 200}), Sizes({50, 30, 20}));
  EXPECT_EQ(divide_budget(100, {1000}), Sizes({100}));
  EXPECT_EQ(divide_budget(10, {500, 300, 200, 0}), Sizes({5, 3, 2, 0}));
}

TEST(DivideBudget, TakesAllWhereThereIsNoMore) {
  for (const int64_t budget : {0, 60, 61, 1 << 30})
    EXPECT_EQ(divide_budget(budget, {10, 20, 30}), Sizes({10, 20, 30})) << budget;
}

TEST(DivideBudget, GivesSmallSetsAQuarterOfAnEqualPartOrAllThatTheyHave) {
  EXPECT_EQ(divide_budget(800, {100'000, 300}), Sizes({700, 100}));
  EXPECT_EQ(divide_budget(800, {100'000, 40}), Sizes({760, 40}));
  // What the smallest gets leaves too little for the second.
  EXPECT_EQ(divide_budget(1200, {10'000, 910, 10}), Sizes({1090, 100, 10}));
  EXPECT_EQ(divide_budget(2, {50, 50, 50}), Sizes({1, 1, 1}));
}

// Eighty documents in eight folders.
class EvalSetsTest : public Prepare {
 protected:
  EvalSetsTest() {
    for (int i = 60; i < 80; ++i) write_document(i);
    config_.data.train = {{folder_.str("corpus/[0-5]/*"), 1.0}};
  }

  void name_sets() {
    config_.data.eval = {{folder_.str("corpus/6"), 1.0, "six"},
                         {folder_.str("corpus/7/[0-4].txt"), 1.0, "seven"},
                         {folder_.str("corpus/7/[5-9].txt"), 1.0, "seven"}};
  }
  // How many documents each set has of each folder.
  std::map<std::string, int> counts(const PreparedData& data) const {
    const EvalSets sets = eval_sets_of(config_.data, data);
    const std::vector<std::string> texts = eval_texts(data);
    EXPECT_EQ(sets.of_document.size(), texts.size());
    std::map<std::string, int> counts;
    for (size_t i = 0; i < texts.size(); ++i) {
      const int number = std::stoi(texts[i].substr(std::string("document number ").size()));
      ++counts[str(sets.names.at(static_cast<size_t>(sets.of_document.at(i))), " ", number / 10)];
    }
    return counts;
  }
};

TEST_F(EvalSetsTest, NamedSetsHaveTheirDocuments) {
  name_sets();
  const PreparedData data = prepare();
  const std::map<std::string, int> expected = {{"seven 7", 10}, {"six 6", 10}};
  EXPECT_EQ(counts(data), expected);
  EXPECT_EQ(eval_sets_of(config_.data, data).names, (std::vector<std::string>{"six", "seven"}));
  scramble_unnoticed();
  EXPECT_EQ(prepare().eval_sources, data.eval_sources);
}

TEST_F(EvalSetsTest, AreFoundAnewForShardsThatAreThere) {
  name_sets();
  const PreparedData data = prepare();
  remove_tree(folder_ / "cache/index");
  const PreparedData again = prepare();
  EXPECT_EQ(again.fingerprint, data.fingerprint);
  EXPECT_EQ(again.eval_sources, data.eval_sources);

  config_.data.eval.reset();
  config_.data.train = {{folder_.str("corpus/[0-3]/*"), 1.0}, {folder_.str("corpus/[4-7]/*"), 1.0}};
  for (const bool in_blocks : {false, true}) {  // large enough to hold out whole documents, or not
    config_.data.eval_fraction = in_blocks ? 0.1 : 0.9;
    const PreparedData held_out = prepare();
    ASSERT_FALSE(held_out.eval_sources.empty());
    remove_tree(folder_ / "cache/index");
    EXPECT_EQ(prepare().eval_sources, held_out.eval_sources);
  }
}

TEST_F(EvalSetsTest, TheShardsAreThoseOfAListWithoutNames) {
  name_sets();
  const PreparedData named = prepare();
  for (DataSourceConfig& source : *config_.data.eval) source.set.clear();
  const PreparedData plain = prepare();
  EXPECT_EQ(plain.fingerprint, named.fingerprint);
  EXPECT_TRUE(plain.eval_sources.empty());
  EXPECT_TRUE(eval_sets_of(config_.data, plain).names.empty());
}

// Names are those of the config, not of the cache.
TEST_F(EvalSetsTest, ANewNameReadsNoText) {
  name_sets();
  const PreparedData data = prepare();
  scramble_unnoticed();
  config_.data.eval->at(0).set = "6";
  EXPECT_EQ(prepare().eval_sources, data.eval_sources);
  EXPECT_EQ(eval_sets_of(config_.data, data).names, (std::vector<std::string>{"6", "seven"}));
}

TEST_F(EvalSetsTest, ASetWithoutADocumentIsADataError) {
  name_sets();
  folder_.write("blank.txt", "\n\n");
  config_.data.format = DataFormat::kLines;
  config_.data.eval->push_back({folder_.str("blank.txt"), 1.0, "blank"});
  expect_contains(error_of(ErrorKind::kData, [&] { prepare(); }),
                  "/data/eval/blank: the files hold no document");
  config_.data.format = DataFormat::kAuto;
  folder_.write("odd.bin", std::string("\x7F"
                                       "ELF\0\1\2\xFF",
                                       8));
  config_.data.eval->back() = {folder_.str("odd.bin"), 1.0, "odd"};
  expect_contains(error_of(ErrorKind::kConfig, [&] { prepare(); }), "/data/eval/odd/0: ");
}

TEST_F(EvalSetsTest, SourcesOfTrainingTextAreSets) {
  config_.data.eval_fraction = 0.9;  // whole documents
  config_.data.train = {{folder_.str("corpus/[0-3]/**"), 1.0},
                        {folder_.str("corpus/4"), 2.0},
                        {folder_.str("corpus/[5-7]/*.txt"), 1.0}};
  const PreparedData data = prepare();
  const EvalSets sets = eval_sets_of(config_.data, data);
  EXPECT_FALSE(sets.share_budget);
  EXPECT_EQ(sets.names, (std::vector<std::string>{"corpus.0-3", "4", "corpus.5-7.txt"}));
  std::map<std::string, std::set<int>> seen;
  for (const auto& [key, count] : counts(data)) {
    const size_t space = key.find(' ');
    seen[key.substr(0, space)].insert(std::stoi(key.substr(space)));
  }
  const std::map<std::string, std::set<int>> expected = {
      {"corpus.0-3", {0, 1, 2, 3}}, {"4", {4}}, {"corpus.5-7.txt", {5, 6, 7}}};
  EXPECT_EQ(seen, expected);
  config_.data.eval_fraction = 0;
  EXPECT_TRUE(prepare().eval_sources.empty());
}

TEST_F(EvalSetsTest, ChosenDocumentsAreAPrefixOrOneOfEachSet) {
  name_sets();
  const PreparedData data = prepare();
  const TokenShard shard(*data.eval_shard, true);
  EvalSets sets = eval_sets_of(config_.data, data);
  const auto targets = [&](const Sizes& documents) {
    int64_t sum = 0;
    for (const int64_t document : documents) sum += document_targets(shard, document);
    return sum;
  };
  Sizes all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(choose_documents(shard, 0, sets), all);
  EXPECT_EQ(choose_documents(shard, targets(all), sets), all);
  EXPECT_EQ(choose_documents(shard, targets({0, 1, 2}), {}), Sizes({0, 1, 2}));
  EXPECT_EQ(choose_documents(shard, targets({0, 1, 2}) + 1, {}), Sizes({0, 1, 2, 3}));
  // One document of each: the first of both sets, whatever lies between.
  const Sizes chosen = choose_documents(shard, 2, sets);
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0], 0);
  const auto set_of = [&](int64_t document) {
    return sets.of_document[static_cast<size_t>(document)];
  };
  for (int64_t document = 0; document < chosen[1]; ++document)
    EXPECT_EQ(set_of(document), set_of(0));
  EXPECT_NE(set_of(chosen[1]), set_of(0));
  sets.share_budget = false;
  EXPECT_EQ(choose_documents(shard, 2, sets), Sizes({0}));
}

using Names = std::vector<std::string>;

Names names_of(const Names& paths) {
  std::vector<DataSourceConfig> sources;
  for (const std::string& path : paths) sources.push_back({path, 1.0});
  Names names = source_names(sources);
  for (const std::string& name : names) EXPECT_TRUE(is_set_name(name)) << name;
  return names;
}

TEST(SourceNames, AreTheLastPartWithoutAWildcard) {
  EXPECT_EQ(names_of({"corpus/python/**/*.py", "corpus/prose", "/data/web/", "wiki.jsonl.gz"}),
            Names({"python", "prose", "web", "wiki.jsonl.gz"}));
  EXPECT_EQ(names_of({"/**/*.py", "/*"}), Names({"py", "source"}));
}

TEST(SourceNames, TakeMorePartsWhereTheyWouldBeTheSame) {
  EXPECT_EQ(names_of({"c/**/*.py", "c/**/*.md", "wiki"}), Names({"c.py", "c.md", "wiki"}));
  EXPECT_EQ(names_of({"/d/en/text", "/d/de/text", "/d/de/code"}),
            Names({"en.text", "de.text", "code"}));
  EXPECT_EQ(names_of({"/a/x/t/*.txt", "/b/x/t/*.txt"}), Names({"a.x.t.txt", "b.x.t.txt"}));
}

TEST(SourceNames, AreDifferentWhateverThePaths) {
  EXPECT_EQ(names_of({"/d/a b", "/d/a+b"}), Names({"d.a_b-1", "d.a_b-2"}));
  EXPECT_EQ(names_of({"/d/*", "/d/**", "/d/?"}), Names({"d-1", "d-2", "d-3"}));
}

TEST(SourceNames, AreNoNamesOfLengths) {
  EXPECT_EQ(names_of({"/d/length_256", "/d/length_x"}), Names({"d.length_256", "length_x"}));
}

// The config.json of a run has absolute paths.
TEST(SourceNames, DoNotChangeWithAbsolutePaths) {
  Config config =
      parse_config(R"({"data": {"train": ["./texts", "x/texts", "x/../y/*.txt"]}})", "r.json", {});
  const Names before = source_names(config.data.train);
  make_paths_absolute(config);
  EXPECT_EQ(source_names(config.data.train), before);
  EXPECT_EQ(before[1], "x.texts");
  EXPECT_EQ(before[0], std::filesystem::current_path().filename().string() + ".texts");
}

}  // namespace

}  // namespace lmtrain
