#include "tokenizer/added_pieces.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "prepare/folder.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

// Made by tests/reference/sentencepiece_added.py with transformers 5.23.
const fs::path kReference = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/sentencepiece_added";
constexpr int32_t kPieces = 500;

class AddedPiecesOfFolder : public ::testing::Test {
 protected:
  AddedPiecesOfFolder() {
    folder_.write("tokenizer.model", read_file(kReference / "tokenizer.model"));
  }
  Tokenizer load() const { return Tokenizer::load(folder_.path() / "tokenizer.model"); }
  std::string problem() const {
    return error_of(ErrorKind::kData, [&] { load(); });
  }
  void write_config(const std::string& text) const { folder_.write("tokenizer_config.json", text); }

  Folder folder_;
};

TEST_F(AddedPiecesOfFolder, IdsAreThoseOfTransformers) {
  const Json golden = Json::parse(read_file(kReference / "golden.json"));
  ASSERT_EQ(golden.size(), 6U);
  for (const auto& [name, folder] : golden.items()) {
    SCOPED_TRACE(name);
    fs::remove(folder_.path() / "added_tokens.json");
    fs::remove(folder_.path() / "special_tokens_map.json");
    for (const auto& [file, content] : folder.at("files").items())
      folder_.write(file, content.dump());
    const Tokenizer tokenizer = load();
    EXPECT_EQ(tokenizer.vocab_size(), folder.at("size").get<int64_t>());
    EXPECT_EQ(tokenizer.bos_id(), folder.at("bos").get<int32_t>());
    EXPECT_EQ(tokenizer.eos_id(), folder.at("eos").get<int32_t>());
    EXPECT_EQ(tokenizer.files().size(), folder.at("files").size() + 1);
    for (size_t i = 0; i < folder.at("texts").size(); ++i) {
      const auto text = folder.at("texts")[i].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), folder.at("ids")[i].get<Ids>()) << text;
    }
  }
}

TEST_F(AddedPiecesOfFolder, TextIsDecodedWithThem) {
  folder_.write("added_tokens.json", R"({"<tool>": 500})");
  const Tokenizer tokenizer = load();
  for (const std::string text : {"a <tool> b", "<tool>x", "a<tool> <tool>", " a", "<tool>"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.piece_bytes().size(), 501U);
  EXPECT_EQ(tokenizer.piece_bytes().back(), 6U);
  write_config(R"({"additional_special_tokens": ["<tool>"]})");
  EXPECT_EQ(load().decode({kPieces}), "");  // a special token is no text
  EXPECT_EQ(load().piece_bytes().back(), 0U);
  EXPECT_EQ(load().encode("a\xFF<tool>"), load().encode("a\xEF\xBF\xBD<tool>"));
}

// What its tokenizer_config.json says of BOS decides nothing else, and no id.
TEST_F(AddedPiecesOfFolder, WithoutAddedTokensTheModelIsAllThereIs) {
  write_config(R"({"add_bos_token": false, "bos_token": "<s>"})");
  const Tokenizer tokenizer = load();
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.files().size(), 1U);
  EXPECT_EQ(tokenizer.vocab_size(), kPieces);
  write_config(R"({"added_tokens_decoder": {}})");
  EXPECT_TRUE(load().adds_bos());
  EXPECT_GT(load().encode("</s>").size(), 1U);  // text
}

// A checkpoint holds what AutoTokenizer needs for the same ids.
TEST_F(AddedPiecesOfFolder, ACheckpointHasThem) {
  folder_.write("added_tokens.json", R"({"<tool>": 500})");
  write_config(R"({"bos_token": "<s>", "eos_token": "<tool>", "add_bos_token": true,
                   "add_eos_token": true, "model_max_length": 4096})");
  const Tokenizer tokenizer = load();
  const Json config = Json::parse(tokenizer.hf_tokenizer_config(/*add_bos=*/false, 64));
  EXPECT_EQ(config, Json::parse(R"({"bos_token": "<s>", "eos_token": "<tool>",
                                    "add_bos_token": false, "add_eos_token": false, "legacy": false,
                                    "model_max_length": 64})"));
  std::vector<std::string> names;
  for (const TokenizerFile& file : tokenizer.files()) names.push_back(file.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tokenizer.model", "tokenizer_config.json",
                                             "added_tokens.json"}));
}

// Without a tokenizer_config.json of their own, special_tokens_map.json alone names BOS and EOS.
TEST_F(AddedPiecesOfFolder, ACheckpointWithoutTheirConfigGivesTheSameIds) {
  folder_.write("added_tokens.json", R"({"<begin>": 500, "<end>": 501})");
  folder_.write("special_tokens_map.json", R"({"bos_token": "<begin>", "eos_token": "<end>"})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.bos_id(), 500);
  std::vector<TokenizerFile> files = tokenizer.files();
  files.push_back({"tokenizer_config.json", tokenizer.hf_tokenizer_config(/*add_bos=*/true, 64)});
  const Tokenizer again(std::move(files), "checkpoint/tokenizer.model");
  EXPECT_EQ(again.bos_id(), tokenizer.bos_id());
  EXPECT_EQ(again.eos_id(), tokenizer.eos_id());
  for (const char* text : {"a <begin> b <end>", "<s> a </s>"})
    EXPECT_EQ(again.encode(text), tokenizer.encode(text)) << text;
}

TEST_F(AddedPiecesOfFolder, WhatCannotBeReadOnIsRefusedByName) {
  folder_.write("added_tokens.json", R"({"<a>": 500, "<b>": 502})");
  expect_contains(problem(), folder_.str("added_tokens.json") +
                                 ": the added token \"<b>\" has the id 502, and no token has 501");
  folder_.write("added_tokens.json", R"({"<a>": 500, "<b>": 500})");
  expect_contains(problem(), "the id 500 is that of \"<a>\" and of \"<b>\"");
  folder_.write("added_tokens.json", R"({"<a>": 7})");
  expect_contains(problem(), "the added token \"<a>\" has the id 7, which is the piece");
  folder_.write("added_tokens.json", R"({"<s>": 500})");
  expect_contains(problem(), "another token of that text has 1");
  folder_.write("added_tokens.json", R"({"<a>": -1})");
  expect_contains(problem(), "\"<a>\" has no id");
  folder_.write("added_tokens.json", "[]");
  expect_contains(problem(), "added_tokens.json: is no JSON object");
  folder_.write("added_tokens.json", R"({"<a>": 500})");
  write_config(R"({"eos_token": "<other>"})");
  expect_contains(problem(), "tokenizer_config.json: eos_token is \"<other>\", which is no token");
  for (const char* decoder :
       {"[]", R"({"x": {"content": "<a>"}})", R"({"500": "<a>"})", R"({"500": {"content": ""}})",
        R"({"99999999": {"content": "<a>"}})"}) {
    write_config(std::string(R"({"added_tokens_decoder": )") + decoder + "}");
    expect_contains(problem(), "tokenizer_config.json: ");
  }
}

}  // namespace
}  // namespace lmtrain
