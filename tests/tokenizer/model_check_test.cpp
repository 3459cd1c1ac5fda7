#include "tokenizer/model_check.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <limits>
#include <map>
#include <random>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "prepare/folder.h"
#include "tokenizer/model_bytes.h"
#include "tokenizer/sentences.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

SentencePieceModel small_model() {
  SentencePieceModel model;
  model.type = ModelType::kBpe;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl},
                  {"a", -1, PieceType::kNormal},     {"b", -2, PieceType::kNormal},
                  {"ab", -3, PieceType::kNormal},    {"ba", -4, PieceType::kUserDefined}};
  return model;
}

std::string problem_of(const SentencePieceModel& model) {
  const std::string bytes = model_bytes(model);
  return model_problem(read_model(bytes));
}

TEST(ModelProblem, Pieces) {
  EXPECT_EQ(problem_of(small_model()), "");
  const auto problem_with = [](const ModelPiece& piece) {
    SentencePieceModel model = small_model();
    model.pieces.push_back(piece);
    return problem_of(model);
  };
  EXPECT_EQ(problem_with({"c", 0, PieceType::kNormal}), "");
  EXPECT_EQ(problem_with({"<s>", 0, PieceType::kNormal}), "") << "as the library allows";
  EXPECT_EQ(problem_with({std::string(1, '\0'), 0, PieceType::kNormal}), "");
  expect_contains(problem_with({"", 0, PieceType::kNormal}), "piece 6: its text is empty");
  expect_contains(problem_with({"\xC3", 0, PieceType::kNormal}), "piece 6: its text is not UTF-8");
  expect_contains(problem_with({"a", 0, PieceType::kUnused}), "piece 6: \"a\" is there twice");
  expect_contains(problem_with({"<s>", 0, PieceType::kControl}), "twice");
  expect_contains(problem_with({"?", 0, PieceType::kUnknown}), "2 pieces for the unknown");
  expect_contains(problem_with({"<0x00>", 0, PieceType::kByte}), "without byte_fallback");
  expect_contains(problem_with({std::string("x\0y", 3), 0, PieceType::kUserDefined}), "NUL");
  for (const float score :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_contains(problem_with({"c", score, PieceType::kNormal}), "score is not finite");
  SentencePieceModel model = small_model();
  model.byte_fallback = true;
  expect_contains(problem_of(model), "0 pieces for bytes");
  model.pieces.push_back({"<0xG0>", 0, PieceType::kByte});
  expect_contains(problem_of(model), "not named as");
  model.pieces.back().text = "<0xe2>";
  expect_contains(problem_of(model), "not named as");
  model.pieces.clear();
  expect_contains(problem_of(model), "no pieces");
  model = small_model();
  model.type = ModelType::kUnigram;
  model.pieces.push_back({std::string(1, '\0'), 0, PieceType::kNormal});
  expect_contains(problem_of(model), "NUL");
}

TEST(ModelProblem, UserDefinedSymbolsThatBeginWithEachOther) {
  SentencePieceModel model = small_model();
  for (size_t size = 1; size <= 64; ++size)
    model.pieces.push_back({std::string(size, 'x'), 0, PieceType::kUserDefined});
  EXPECT_EQ(problem_of(model), "");
  model.pieces.push_back({std::string(65, 'x'), 0, PieceType::kUserDefined});
  expect_contains(problem_of(model), "more than 64");
}

TEST(ModelProblem, WhatIsNoMessageOfProtobuf) {
  const std::string bytes = model_bytes(small_model());
  const auto problem = [](const std::string& model) { return model_problem(read_model(model)); };
  const std::string at_end = "byte " + std::to_string(bytes.size());
  // A group; the end of a group; a field 0; a tag of more than 32 bits; a length beyond the end.
  for (const char* damage :
       {"\x93\x19\x94\x19", "\x94\x19", "\x02\x01", "\x9A\x80\x80\x80\x7F\x01", "\x1A\x7F"})
    expect_contains(problem(bytes + damage), at_end);
  EXPECT_EQ(problem(bytes + "\x92\x19\x01x"), "") << "a field that is not known";
  expect_contains(error_of(ErrorKind::kData, [&] { Tokenizer(bytes + "\x1A\x7F", "x.model"); }),
                  "x.model is not a sentencepiece model (" + at_end);
}

// A precompiled_charsmap of the units given, in one block, the first of them the root.
std::string table_of(const std::map<uint32_t, uint32_t>& units, std::string_view replacements,
                     uint32_t num_units = 256) {
  std::string table;
  const auto add = [&](uint32_t value) {
    for (unsigned shift = 0; shift < 32; shift += 8)
      table.push_back(static_cast<char>(value >> shift & 0xFFU));
  };
  add(4 * num_units);
  constexpr uint32_t kUnused = 1U << 31;  // has no label
  for (uint32_t i = 0; i < num_units; ++i) {
    const auto found = units.find(i);
    add(found == units.end() ? kUnused : found->second);
  }
  return table.append(replacements);
}

constexpr uint32_t kHasValue = 1U << 8;
uint32_t to(uint32_t offset, char label, uint32_t flags = 0) {
  return offset << 10 | flags | static_cast<unsigned char>(label);
}
uint32_t value(uint32_t number) { return number | 1U << 31; }

TEST(TableProblem, EveryWayThroughTheTrie) {
  // The root's node is at 16, where 'a' leads to the node at 16 ^ 'a' ^ 2, whose value is there.
  const uint32_t a = 16 ^ 'a';
  const std::string_view kReplacements("x\0yz\0", 5);
  const auto problem = [&](const std::map<uint32_t, uint32_t>& units) {
    return table_problem(table_of(units, kReplacements));
  };
  const std::map<uint32_t, uint32_t> good = {
      {0, to(16, 0)}, {a, to(2, 'a', kHasValue)}, {a ^ 2U, value(2)}};
  EXPECT_EQ(problem(good), "");
  auto bad = good;
  bad[a ^ 2U] = value(5);
  expect_contains(problem(bad), "byte 5 of replacements of 5");
  bad = good;
  bad[0] = to(256, 0);
  expect_contains(problem(bad), "leads to unit 256 of 256");
  bad = good;
  bad[a] = to(1U << 20, 'a', kHasValue);
  expect_contains(problem(bad), "of 256");
  bad[a] = to(1U << 20, 'a', kHasValue | 1U << 9);
  expect_contains(problem(bad), "of 256");
  bad = good;
  bad[a] = to(static_cast<unsigned char>('a'), 'a');  // to the root's node again
  expect_contains(problem(bad), "circle at unit 16");
}

TEST(TableProblem, MoreReplacedTextsThanTheLibraryHasRoomFor) {
  // One node a block, each of the texts "a", "aa", "aaa" ends in the next.
  const auto problem = [](uint32_t num_texts) {
    std::map<uint32_t, uint32_t> units = {{0, to(256, 0)}};
    for (uint32_t i = 1; i <= num_texts; ++i) {
      const uint32_t position = 256 * i;
      const uint32_t unit = position ^ 'a';
      units[unit] = to(unit ^ (position + 256), 'a', kHasValue);
      units[position + 256] = value(0);
    }
    return table_problem(table_of(units, std::string_view("\0", 1), 256 * (num_texts + 2)));
  };
  EXPECT_EQ(problem(32), "");
  expect_contains(problem(33), "more than 32");
}

TEST(TableProblem, SizesAndReplacements) {
  const std::map<uint32_t, uint32_t> units = {{0, to(16, 0)}};
  const std::string good = table_of(units, std::string_view("x\0", 2));
  EXPECT_EQ(table_problem(good), "");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(table_problem(std::string_view(good).substr(0, size)), "") << size;
  expect_contains(table_problem(table_of(units, "x")), "no end");
  expect_contains(table_problem(table_of(units, std::string_view("x\0\xC3\0", 4))), "UTF-8");
  expect_contains(table_problem(table_of(units, std::string(2000, 'x') + std::string(1, '\0'))),
                  "2000 bytes");
  expect_contains(table_problem(table_of({}, std::string_view("x\0", 2), 255)), "blocks");
  expect_contains(table_problem(table_of({}, std::string_view("x\0", 2), 0)), "blocks");
}

// A model of the library's own trainer. `rules`: a file of rules of normalisation, or the name of
// one that the library has.
std::string trained(const std::string& type, const std::string& normalisation) {
  std::vector<std::string> lines;
  for (const char* word :
       {"the", "tree", "that", "there", "end", "bend", "lend", "a", "ab", "bad"}) {
    for (int i = 0; i < 20; ++i) lines.push_back(std::string(word) + " " + word + "s the end");
  }
  const bool is_file = normalisation.find('/') != std::string::npos;
  Sentences sentences(lines);
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      std::unordered_map<std::string, std::string>{
          {"model_type", type},
          {"vocab_size", type == "bpe" ? "40" : "30"},
          {"hard_vocab_limit", "false"},
          {"user_defined_symbols", "<x>,<xy>"},
          {is_file ? "normalization_rule_tsv" : "normalization_rule_name", normalisation},
          {"minloglevel", "3"}},
      &sentences, &bytes);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}

// Loads and encodes, whatever the bytes: either works, or is an error that names the file.
void expect_safe(const std::string& bytes) {
  static const std::vector<std::string> kTexts = {
      "the tree <xy> that bends",    "\xEF\xAC\x81ne \xE2\x91\xA0 \xEF\xBC\xA1 e\xCC\x81",
      std::string("nul \0 \x01", 7), "\xFF\xC3 broken \xE2\x82",
      "   spaces \xE3\x80\x80 ",     "\xE3\x82\xAB\xE3\x82\x99 \xED\x95\x9C\xEA\xB8\x80"};
  try {
    const Tokenizer tokenizer(bytes, "m.model");
    for (const std::string& text : kTexts) tokenizer.decode(tokenizer.encode(text));
    tokenizer.hf_tokenizer_config(false, 8);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    expect_contains(error.what(), "m.model");
  }
}

class DamagedModel : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedModel, EachByteOfASmallModel) {
  const Folder folder;
  const std::string rules =
      folder.write("rules.tsv", "FB01\t66 69\n2460\t31\nFF21\t41\n65 301\tE9\n41\t61\n").native();
  const std::string bytes = trained(GetParam(), rules);
  ASSERT_EQ(model_problem(read_model(bytes)), "");
  ASSERT_FALSE(read_model(bytes).tables.empty());
  std::mt19937 random(1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1U << (random() % 8)));
    expect_safe(damaged);
    damaged[i] = static_cast<char>(random());
    expect_safe(damaged);
    if (i % 16 == 0) expect_safe(bytes.substr(0, i));
  }
}

TEST_P(DamagedModel, ATableAsModelsHaveIt) {
  const std::string bytes = trained(GetParam(), "nmt_nfkc");
  ASSERT_EQ(model_problem(read_model(bytes)), "");
  ASSERT_GT(bytes.size(), 200'000U);
  std::mt19937 random(2);
  for (int i = 0; i < 150; ++i) {
    std::string damaged = bytes;
    damaged[random() % bytes.size()] = static_cast<char>(random());
    expect_safe(damaged);
  }
}

TEST(ModelProblem, TheTablesOfTheLibraryAreSound) {
  for (const char* name : {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"})
    EXPECT_EQ(model_problem(read_model(trained("unigram", name))), "") << name;
  const std::string reference = read_file(kTokenizerModel);
  EXPECT_EQ(model_problem(read_model(reference)), "");
}

INSTANTIATE_TEST_SUITE_P(Types, DamagedModel, ::testing::Values("unigram", "bpe", "char", "word"));

}  // namespace
}  // namespace lmtrain
