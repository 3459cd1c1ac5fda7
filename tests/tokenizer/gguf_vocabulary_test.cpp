#include "tokenizer/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/support.h"
#include "formats/gguf_reader.h"
#include "prepare/folder.h"
#include "tokenizer/bpe_encoder.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::GgufReader;

std::string pre_of(const std::string& bytes) {
  return gguf_pre_name(read_tokenizer_json(bytes, "t.json"), "t.json");
}

Tokenizer with_specials(const std::string& bytes, const std::string& specials) {
  return {{{"tokenizer.json", bytes}, {"special_tokens_map.json", specials}}, "t.json"};
}

json with_eos() {
  json small = small_tokenizer_json();
  small["added_tokens"] = json::array({{{"id", 258}, {"content", "<eos>"}, {"special", true}},
                                       {{"id", 259}, {"content", "<tag>"}, {"special", false}}});
  return small;
}

constexpr const char* kEos = R"({"eos_token": "<eos>"})";

TEST(GgufVocabulary, RulesOfWellKnownModelsHaveTheirNames) {
  const std::map<std::string, std::string> names = {
      {"gpt2", "gpt-2"},    {"neox", "gpt-2"},   {"olmo", "gpt-2"},          {"qwen2", "qwen2"},
      {"smollm", "smollm"}, {"o200k", "gpt-4o"}, {"deepseek", "deepseek-v3"}};
  for (const auto& [file, name] : names) EXPECT_EQ(pre_of(reference_tokenizer_json(file)), name);
  // One cut, whose names differ in whether words that are tokens are taken whole.
  for (const char* file : {"llama3", "cl100k", "byte_bpe"}) {
    const std::string name = pre_of(reference_tokenizer_json(file));
    EXPECT_TRUE(name == "llama-bpe" || (name == "dbrx" && std::string(file) != "llama3")) << name;
  }
}

// "abc" is a token that its merges do not give, so that it matters who takes it whole.
TEST(GgufVocabulary, TakingWordsWholeDecidesWhereItMatters) {
  json llama = json::parse(reference_tokenizer_json("llama3"));
  llama["model"] = small_tokenizer_json()["model"];
  llama["added_tokens"] = json::array();
  llama["post_processor"] = nullptr;
  llama["model"]["vocab"]["bc"] = 258;
  llama["model"]["merges"] = {"b c", "a b", "ab c"};
  for (const bool is_whole : {true, false}) {
    llama["model"]["ignore_merges"] = is_whole;
    EXPECT_EQ(pre_of(llama.dump()), is_whole ? "llama-bpe" : "dbrx");
  }
  json gpt2 = small_tokenizer_json();
  EXPECT_EQ(pre_of(gpt2.dump()), "gpt-2");
  gpt2["model"]["ignore_merges"] = true;
  EXPECT_EQ(pre_of(gpt2.dump()), "gpt-2");
  gpt2["model"]["vocab"]["bc"] = 258;
  gpt2["model"]["merges"] = {"b c", "a b", "ab c"};
  const std::string message = error_of(ErrorKind::kData, [&] { pre_of(gpt2.dump()); });
  EXPECT_NE(message.find("ignore_merges"), std::string::npos) << message;
}

TEST(GgufVocabulary, RulesWithoutANameAreRefused) {
  const std::string prefix =
      error_of(ErrorKind::kData, [&] { pre_of(reference_tokenizer_json("prefix_space")); });
  EXPECT_NE(prefix.find("add_prefix_space"), std::string::npos) << prefix;
  json other = small_tokenizer_json();
  other["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "\\p{N}{1,2}"}}}, {"behavior", "Isolated"}},
        small_tokenizer_json()["pre_tokenizer"]}}};
  const std::string message = error_of(ErrorKind::kData, [&] { pre_of(other.dump()); });
  EXPECT_NE(message.find("no name for the rule"), std::string::npos) << message;
  EXPECT_NE(message.find("--format hf"), std::string::npos) << message;
  // The same pattern, but what lies between its matches is removed, or the matches are.
  other["pre_tokenizer"]["pretokenizers"] = {{{"type", "Split"},
                                              {"pattern", {{"Regex", "\\p{N}"}}},
                                              {"behavior", "Removed"},
                                              {"invert", false}},
                                             small_tokenizer_json()["pre_tokenizer"]};
  error_of(ErrorKind::kData, [&] { pre_of(other.dump()); });
}

TEST(GgufVocabulary, AJsonHasTokensTypesAndMerges) {
  const Tokenizer tokenizer = with_specials(with_eos().dump(), kEos);
  const GgufVocabulary vocabulary = gguf_vocabulary(tokenizer, 264, "t.json");
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "gpt-2");
  ASSERT_EQ(vocabulary.tokens.size(), 264U);
  ASSERT_EQ(vocabulary.types.size(), 264U);
  EXPECT_EQ(vocabulary.tokens[256], "ab");
  EXPECT_EQ(vocabulary.types[256], 1);
  EXPECT_EQ(vocabulary.tokens[258], "<eos>");
  EXPECT_EQ(vocabulary.types[258], 3);
  EXPECT_EQ(vocabulary.types[259], 4);
  EXPECT_EQ(vocabulary.tokens[263], "[PAD263]");
  EXPECT_EQ(vocabulary.types[263], 5);
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a b", "ab c"}));
  EXPECT_TRUE(vocabulary.scores.empty());
  EXPECT_TRUE(vocabulary.differences.empty());
}

TEST(GgufVocabulary, WhatLlamaCppDoesOtherwiseIsSaid) {
  json small = with_eos();
  small["normalizer"] = {{"type", "NFC"}};
  small["added_tokens"][1]["lstrip"] = true;
  const GgufVocabulary vocabulary =
      gguf_vocabulary(with_specials(small.dump(), kEos), 260, "t.json");
  ASSERT_EQ(vocabulary.differences.size(), 2U);
  EXPECT_NE(vocabulary.differences[0].find("NFC"), std::string::npos);
  EXPECT_NE(vocabulary.differences[1].find("<tag>"), std::string::npos);
}

TEST(GgufVocabulary, RefusesWhatAModelCannotHold) {
  const Tokenizer tokenizer = with_specials(with_eos().dump(), kEos);
  error_of(ErrorKind::kData, [&] { gguf_vocabulary(tokenizer, 259, "t.json"); });
  const Tokenizer endless(small_tokenizer_json().dump(), "t.json");
  const std::string message =
      error_of(ErrorKind::kData, [&] { gguf_vocabulary(endless, 300, "t.json"); });
  EXPECT_NE(message.find("no EOS"), std::string::npos) << message;
  // A placeholder that a token spells already.
  json twice = with_eos();
  twice["added_tokens"][1]["content"] = "[PAD260]";
  const std::string two = error_of(
      ErrorKind::kData, [&] { gguf_vocabulary(with_specials(twice.dump(), kEos), 261, "t.json"); });
  EXPECT_NE(two.find("two ids"), std::string::npos) << two;
}

TEST(GgufVocabulary, ASentencepieceModelHasPiecesScoresAndTypes) {
  const BpePieces pieces{.merges = {"ab"}, .characters = {"a", "b", " "}};
  const Tokenizer tokenizer(bpe_model(pieces, /*byte_fallback=*/true, 1.0), "t.model");
  const GgufVocabulary vocabulary = gguf_vocabulary(tokenizer, 270, "t.model");
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.pre, "default");
  ASSERT_EQ(vocabulary.scores.size(), 270U);
  EXPECT_EQ(std::vector<int32_t>(vocabulary.types.begin(), vocabulary.types.begin() + 4),
            (std::vector<int32_t>{2, 3, 3, 6}));
  EXPECT_EQ(vocabulary.tokens[3 + 0x41], "<0x41>");
  EXPECT_EQ(vocabulary.tokens[259], "ab");
  EXPECT_EQ(vocabulary.types[259], 1);
  EXPECT_EQ(vocabulary.scores[259], 0);
  EXPECT_EQ(vocabulary.scores[260], -1);
  EXPECT_EQ(vocabulary.tokens[262], kSpaceMark);
  EXPECT_EQ(vocabulary.tokens[269], "[PAD269]");
  EXPECT_EQ(vocabulary.scores[269], -1000);
  EXPECT_EQ(vocabulary.adds_space_prefix, false);
  EXPECT_TRUE(vocabulary.differences.empty());
  const Tokenizer bare(bpe_model(pieces, /*byte_fallback=*/false, 1.0), "t.model");
  EXPECT_EQ(gguf_vocabulary(bare, 7, "t.model").differences.size(), 1U);
}

// As transformers converts a sentencepiece model: every way to join two pieces to a third, by its
// score.
json json_of_pieces(const SentencePieceModel& model) {
  json vocab;
  json merges = json::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) vocab[model.pieces[id].text] = id;
  std::vector<const ModelPiece*> by_score;
  for (const ModelPiece& piece : model.pieces) {
    if (piece.type == PieceType::kNormal) by_score.push_back(&piece);
  }
  std::stable_sort(by_score.begin(), by_score.end(),
                   [](const auto* a, const auto* b) { return a->score > b->score; });
  for (const ModelPiece* piece : by_score) {
    for (size_t middle = 1; middle < piece->text.size(); ++middle) {
      const std::string left = piece->text.substr(0, middle);
      const std::string right = piece->text.substr(middle);
      if (vocab.contains(left) && vocab.contains(right)) merges.push_back({left, right});
    }
  }
  json added = json::array();
  for (const size_t id : {0, 1, 2})
    added.push_back({{"id", id}, {"content", model.pieces[id].text}, {"special", true}});
  const json mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  return {{"added_tokens", added},
          {"normalizer", mark},
          {"pre_tokenizer", nullptr},
          {"decoder", {{"type", "ByteFallback"}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

std::vector<int32_t> ids_of_llama_cpp(const GgufVocabulary& vocabulary, std::string_view text) {
  SentencePieceModel model;
  model.type = ModelType::kBpe;
  model.byte_fallback = true;
  model.adds_prefix = vocabulary.adds_space_prefix.value();
  model.removes_spaces = false;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    model.pieces.push_back({vocabulary.tokens[id], vocabulary.scores[id],
                            static_cast<PieceType>(vocabulary.types[id])});
  }
  std::vector<int32_t> ids;
  BpeEncoder::Scratch scratch;
  BpeEncoder(model).encode(text, scratch, ids);
  return ids;
}

constexpr const char* kLlamaEos = R"({"eos_token": "</s>"})";

// llama.cpp joins the neighbours of the highest score, as sentencepiece does.
TEST(GgufVocabulary, AJsonThatWasSentencepieceIsOneAgain) {
  const SentencePieceModel model = read_model(read_file(kTokenizerModel));
  const json value = json_of_pieces(model);
  const Tokenizer tokenizer = with_specials(value.dump(), kLlamaEos);
  const auto size = static_cast<int64_t>(model.pieces.size());
  const GgufVocabulary vocabulary = gguf_vocabulary(tokenizer, size, "t.json");
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.adds_space_prefix, false);
  EXPECT_TRUE(vocabulary.differences.empty());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    EXPECT_EQ(vocabulary.tokens[id], model.pieces[id].text);
    EXPECT_EQ(vocabulary.types[id], static_cast<int32_t>(model.pieces[id].type));
  }
  std::string text = read_file(std::filesystem::path(LMTRAIN_SOURCE_DIR) / "docs/optimizers.md");
  text += "=======     \n\n\n -----\xF0\x9F\x98\x80 \xE4\xBD\xA0";
  EXPECT_EQ(ids_of_llama_cpp(vocabulary, text), tokenizer.encode(text));
  EXPECT_EQ(Tokenizer(read_file(kTokenizerModel), "t.model").encode(text), tokenizer.encode(text));
}

TEST(GgufVocabulary, AJsonThatLlamaCppWouldReadOtherwiseIsRefused) {
  const json whole = json_of_pieces(read_model(read_file(kTokenizerModel)));
  const auto problem = [&](const char* pointer, const json& value) {
    json changed = whole;
    changed[json::json_pointer(pointer)] = value;
    return error_of(ErrorKind::kData, [&] {
      gguf_vocabulary(with_specials(changed.dump(), kLlamaEos), 1 << 20, "t.json");
    });
  };
  const auto expect = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("--format hf"), std::string::npos) << message;
  };
  expect(problem("/normalizer", {{"type", "NFKC"}}), "changes text before it encodes");
  expect(problem("/normalizer", nullptr), "marks spaces in a way");
  expect(problem("/model/ignore_merges", true), "ignore_merges");
  expect(problem("/pre_tokenizer", {{"type", "Digits"}}), "no name for the rule");
  json merges = whole["model"]["merges"];
  merges.erase(merges.size() - 1);
  expect(problem("/model/merges", merges), "it does not join");
  json moved = whole["model"]["merges"];
  moved.push_back(moved.front());
  expect(problem("/model/merges", moved), "do not stand together");
  json spaced = whole;
  spaced["normalizer"] = nullptr;
  spaced["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", kSpaceMark},
                             {"prepend_scheme", "first"},
                             {"split", false}};
  const GgufVocabulary vocabulary =
      gguf_vocabulary(with_specials(spaced.dump(), kLlamaEos), 1 << 20, "t.json");
  EXPECT_EQ(vocabulary.adds_space_prefix, true);
  EXPECT_EQ(vocabulary.differences.size(), 1U);
}

TEST(GgufVocabulary, AUnigramModelIsRefused) {
  const Tokenizer tokenizer =
      Tokenizer::load(std::filesystem::path(LMTRAIN_SOURCE_DIR) /
                      "tests/reference/sentencepiece_unigram" / "lossless.model");
  const std::string message =
      error_of(ErrorKind::kData, [&] { gguf_vocabulary(tokenizer, 1 << 20, "t.model"); });
  EXPECT_NE(message.find("unigram"), std::string::npos) << message;
}

TEST(GgufVocabulary, KeysAreThoseOfLlamaCpp) {
  const testing::TemporaryFolder folder;
  const auto file_of = [&](const Tokenizer& tokenizer, int64_t size) {
    GgufMetadata metadata;
    add_gguf_vocabulary(gguf_vocabulary(tokenizer, size, "t"), tokenizer, metadata);
    FileWriter writer(folder / "file");
    write_gguf(writer, metadata, {}, {});
    writer.finish();
    return read_file(folder / "file");
  };
  const std::string json_bytes = file_of(with_specials(with_eos().dump(), kEos), 260);
  const GgufReader with_json(json_bytes);
  EXPECT_EQ(with_json.text_of("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(with_json.text_of("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(with_json.number_of("tokenizer.ggml.eos_token_id"), 258);
  EXPECT_FALSE(with_json.values.contains("tokenizer.ggml.bos_token_id"));
  EXPECT_EQ(with_json.number_of("tokenizer.ggml.add_bos_token"), 0);
  EXPECT_EQ(with_json.number_of("tokenizer.ggml.add_eos_token"), 0);
  EXPECT_EQ(with_json.values.at("tokenizer.ggml.merges").texts.size(), 2U);
  EXPECT_FALSE(with_json.values.contains("tokenizer.ggml.scores"));
  EXPECT_FALSE(with_json.values.contains("tokenizer.ggml.add_space_prefix"));

  const std::string model = bpe_model({.merges = {}, .characters = {"a"}}, true, 1.0);
  const std::string model_bytes = file_of(Tokenizer(model, "t.model"), 260);
  const GgufReader with_model(model_bytes);
  EXPECT_EQ(with_model.text_of("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(with_model.number_of("tokenizer.ggml.bos_token_id"), 1);
  EXPECT_EQ(with_model.number_of("tokenizer.ggml.eos_token_id"), 2);
  EXPECT_EQ(with_model.number_of("tokenizer.ggml.unknown_token_id"), 0);
  EXPECT_EQ(with_model.number_of("tokenizer.ggml.add_bos_token"), 1);
  EXPECT_EQ(with_model.number_of("tokenizer.ggml.add_space_prefix"), 0);
  EXPECT_EQ(with_model.values.at("tokenizer.ggml.scores").numbers.size(), 260U);
  EXPECT_EQ(with_model.values.at("tokenizer.ggml.token_type").type, 5U);
  EXPECT_FALSE(with_model.values.contains("tokenizer.ggml.merges"));
  EXPECT_FALSE(with_model.values.contains("tokenizer.ggml.padding_token_id"));
}

}  // namespace
}  // namespace lmtrain
