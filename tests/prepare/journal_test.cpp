// The journal of a preparation, field by field. That a killed preparation goes on is tested by
// resume_test.cpp.
#include "prepare/journal.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/strict_json.h"
#include "prepare/folder.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

PreparationState full_state() {
  PreparationState state;
  state.train.next_file = 3;
  state.train.content = {11, 12};
  state.train.counts = {.documents = 40,
                        .bytes = 4000,
                        .empty_documents = 1,
                        .invalid_documents = 2,
                        .nul_documents = 3,
                        .skipped = {.blank_lines = 4,
                                    .nulls = 5,
                                    .json_lines = 37,
                                    .bad_lines = 2,
                                    .first_bad_lines = {"a.jsonl:7: not JSON"}},
                        .formats = {{"jsonl", {2, 30}}, {"text", {1, 10}}}};
  state.eval.content = {13, 14};
  std::vector<uint64_t> bytes_of_ranges = state.sample.bytes();
  bytes_of_ranges.front() = 7;
  bytes_of_ranges.back() = 9;
  state.sample.load(std::move(bytes_of_ranges));
  SourceShape shape;
  shape.documents = 40;
  shape.size = 4000;
  shape.largest = 500;
  shape.smallest_hash = 1;
  shape.largest_hash = UINT64_MAX;
  state.sources.load({shape}, {15, 16}, 0);
  state.common.load({{23, 0}, {24, 1}}, {0, 0});
  state.overlap.load({{21, {2, 50, true}}, {22, {1, 60, false}}});
  state.held_out.emplace().load({0, 1}, {{0, 0.25, {}}, {256, 0, {31, 32}}});
  TokensProgress& tokens = state.tokens.emplace();
  tokens.fingerprint = "0123456789abcdef0123456789abcdef";
  tokens.in_eval = true;
  tokens.next = {2, 17};
  tokens.content = {18, 19};
  tokens.train = {30, 900, 0xFFFFFFFF, {1800, 1}, {240, 2}};
  tokens.train_bytes = 3600;
  tokens.eval = HashOrderedProgress{{10, 100, 3, {200, 4}, {80, 5}}, {160, 6}};
  tokens.eval_bytes = 400;
  tokens.files.load({0, 12, 30});
  return state;
}

class JournalTest : public ::testing::Test {
 protected:
  Json saved(const PreparationState& state) {
    journal.save(state);
    return read_checked_json(folder.path() / "journal", 1 << 20);
  }
  Folder folder;
  Journal journal{folder.path() / "journal", {}};
};

TEST_F(JournalTest, IsWrittenFieldByField) {
  const Json expected = Json::parse(R"({"version":6,
    "train":{"next_file":3,"content":[11,12],"documents":40,"bytes":4000,"empty_documents":1,
             "invalid_documents":2,"nul_documents":3,"blank_lines":4,"nulls":5,
             "json_lines":37,"bad_lines":2,"first_bad_lines":["a.jsonl:7: not JSON"],
             "formats":{"jsonl":[2,30],"text":[1,10]}},
    "eval":{"next_file":0,"content":[13,14],"documents":0,"bytes":0,"empty_documents":0,
            "invalid_documents":0,"nul_documents":0,"blank_lines":0,"nulls":0,
            "json_lines":0,"bad_lines":0,"first_bad_lines":[],"formats":{}},
    "sample":[0,7,65535,9],
    "sources":{"shapes":[[40,4000,500,1,18446744073709551615]],"order":[15,16],"last":0},
    "common":{"documents":[[23,0],[24,1]],"lower":[0,0]},
    "overlap":[[21,2,50,true],[22,1,60,false]],
    "held_out":{"rules_of_sources":[0,1],
                "rules":[[0,4598175219545276416,[]],[256,0,[31,32]]]},
    "tokens":{"fingerprint":"0123456789abcdef0123456789abcdef","in_eval":true,"next":[2,17],
              "content":[18,19],
              "train":{"documents":30,"tokens":900,"tokens_crc":4294967295,
                       "tokens_file":[1800,1],"index_file":[240,2]},
              "train_bytes":3600,
              "eval":{"documents":10,"tokens":100,"tokens_crc":3,
                      "tokens_file":[200,4],"index_file":[80,5]},
              "eval_hashes":[160,6],"eval_bytes":400,"files":[0,12,30]}})");
  EXPECT_EQ(saved(full_state()), expected);
  // What is not decided yet has no key.
  const Json begun = saved(PreparationState());
  EXPECT_EQ(begun.at("sample").dump(), "[]");
  EXPECT_FALSE(begun.contains("held_out") || begun.contains("tokens"));
}

TEST_F(JournalTest, ReadsWhatItWrites) {
  for (const PreparationState& state : {PreparationState(), full_state()}) {
    const Json written = saved(state);
    PreparationState loaded;
    ASSERT_TRUE(journal.load(loaded));
    EXPECT_EQ(saved(loaded), written);
    EXPECT_EQ(loaded.held_out.has_value(), state.held_out.has_value());
    EXPECT_EQ(loaded.tokens.has_value(), state.tokens.has_value());
  }
}

TEST_F(JournalTest, WhatIsMissingOrOfAnotherVersionIsAsGoodAsNone) {
  PreparationState state;
  EXPECT_FALSE(journal.load(state));
  const Json whole = saved(full_state());
  for (const auto& [key, value] : whole.items()) {
    Json fields = whole;
    fields.erase(key);
    if (key == "version") fields[key] = 2;
    write_file_atomic(folder.path() / "journal", checked_json_text(fields));
    EXPECT_EQ(journal.load(state), key == "held_out" || key == "tokens") << key;
  }
  journal.remove();
  EXPECT_FALSE(journal.load(state));
}

TEST_F(JournalTest, ARuleThatIsNotThereIsNotTrusted) {
  PreparationState state = full_state();
  state.held_out->load({0, 2}, {{0, 0.25, {}}, {256, 0, {31, 32}}});
  journal.save(state);
  PreparationState loaded;
  EXPECT_FALSE(journal.load(loaded));
  EXPECT_FALSE(loaded.held_out.has_value());
}

// Each entry leads to a lower one or to itself: another one would never end.
TEST_F(JournalTest, EntriesThatDoNotFitAreNotTrusted) {
  const Json whole = saved(full_state());
  const auto loads = [&](const char* key, const Json& value) {
    Json fields = whole;
    fields["common"][key] = value;
    write_file_atomic(folder.path() / "journal", checked_json_text(fields));
    PreparationState state;
    return journal.load(state);
  };
  EXPECT_TRUE(loads("lower", {0, 1}));
  EXPECT_FALSE(loads("lower", {1, 0}));
  EXPECT_FALSE(loads("lower", {0, -1}));
  EXPECT_FALSE(loads("lower", {0}));
  EXPECT_FALSE(loads("documents", {{23, 2}}));
  EXPECT_FALSE(loads("documents", {{23, -1}}));
}

}  // namespace
}  // namespace lmtrain
