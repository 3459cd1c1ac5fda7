#include "tokenizer/tokenizer_json.h"

#include "prepare/folder.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

using nlohmann::json;

std::string refusal(const std::string& bytes) {
  return error_of(ErrorKind::kData, [&] { read_tokenizer_json(bytes, "x.json"); });
}

struct Change {
  const char* pointer;
  json value;
  std::string_view message;
};

json token(const json& changes = json::object()) {
  json value = {{"id", 258}, {"content", "<a>"}, {"special", true}};
  value.update(changes);
  return value;
}

// A part that is not supported, or contradicts another, is named with its place.
TEST(TokenizerJson, NamesWhatItRefuses) {
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  json merged = split;
  merged["behavior"] = "MergedWithBoth";
  merged["pattern"]["Regex"] = "a";
  const Change changes[] = {
      {"/normalizer", {{"type", "Nmt"}}, "x.json: /normalizer is of the type \"Nmt\""},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Strip"}}}}},
       "/normalizer/normalizers/1 is of the type \"Strip\""},
      {"/normalizer", {{"type", "Prepend"}}, "/normalizer/prepend is null"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", ""}},
       "/normalizer/pattern/String is empty"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "a*"}}}, {"content", ""}},
       "/normalizer/pattern/Regex: the regular expression \"a*\" matches the empty text"},
      {"/pre_tokenizer", nullptr, "/model has no byte_fallback and no unk_token"},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, "/pre_tokenizer is of the type \"Whitespace\""},
      {"/pre_tokenizer", {{"type", "Metaspace"}}, "/pre_tokenizer/replacement is null"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "__"}},
       "/pre_tokenizer/replacement is \"__\", not one character"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}},
       "/pre_tokenizer/prepend_scheme is \"last\""},
      {"/pre_tokenizer",
       {{"type", "Metaspace"},
        {"replacement", "_"},
        {"prepend_scheme", "first"},
        {"add_prefix_space", false}},
       "/pre_tokenizer/add_prefix_space is false"},
      {"/pre_tokenizer", split, "/pre_tokenizer/pattern/Regex: the regular expression \"(a\""},
      {"/pre_tokenizer", merged, "/pre_tokenizer/behavior is \"MergedWithBoth\""},
      {"/pre_tokenizer/new_key", true, "/pre_tokenizer has the key \"new_key\""},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "ByteLevel"}}}}},
       "/pre_tokenizer/pretokenizers/1 is a second ByteLevel"},
      {"/post_processor", {{"type", "BertProcessing"}}, "/post_processor is of the type"},
      {"/decoder", {{"type", "WordPiece"}}, "/decoder is of the type \"WordPiece\""},
      {"/decoder", nullptr, "/decoder is not an object"},
      {"/decoder",
       {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, {{"type", "CTC"}}}}},
       "/decoder/decoders/1 is of the type \"CTC\""},
      {"/decoder",
       {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}},
       "/decoder/start is"},
      {"/model", nullptr, "/model is missing"},
      {"/model/type", "Unigram", "/model/type is \"Unigram\""},
      {"/model/dropout", 0.1, "/model/dropout drops merges"},
      {"/model/byte_fallback", true, "/model/byte_fallback is true"},
      {"/model/end_of_word_suffix", "</w>", "/model/end_of_word_suffix is \"</w>\""},
      {"/model/fuse_unk", 1, "/model/fuse_unk is number, not true or false"},
      {"/model/later", 1, "/model has the key \"later\""},
      {"/model/vocab", json::array(), "/model/vocab is not an object"},
      {"/model/vocab/ab", -1, "/model/vocab/ab is not an integer from 0 to 4194303"},
      {"/model/vocab/ab", 5'000'000, "/model/vocab/ab is not an integer from 0 to 4194303"},
      {"/model/vocab/ab", "1", "/model/vocab/ab is not an integer"},
      {"/model/vocab/ab", 97, "has too"},
      {"/model/vocab/~1", nullptr, "/model/vocab/~1 is not an integer"},
      {"/model/merges", "a b", "/model/merges is string, not an array"},
      {"/model/merges/1", "a  b", "/model/merges/1 is \"a  b\", not two tokens"},
      {"/model/merges/1", "ab", "/model/merges/1 is \"ab\""},
      {"/model/merges/1", {"a", "b", "c"}, "/model/merges/1 is neither"},
      {"/model/merges/1", "x y", "/model/merges/1 needs the token \"xy\""},
      {"/added_tokens/0", token({{"id", 300}}), "/added_tokens/0/id is 300"},
      {"/added_tokens/0", token({{"content", "a"}}), "/added_tokens/0/id is 258"},
      {"/added_tokens/0", token({{"content", ""}}), "/added_tokens/0/content is empty"},
      {"/added_tokens/0", token({{"special", 1}}), "/added_tokens/0/special is number"},
      {"/added_tokens", {token(), token()}, "/added_tokens/1/content is \"<a>\" a second time"},
      {"/later", 1, "x.json: the whole file has the key \"later\""},
  };
  for (const Change& change : changes) {
    json value = small_tokenizer_json();
    value[json::json_pointer(change.pointer)] = change.value;
    expect_contains(refusal(value.dump()), change.message);
  }
}

TEST(TokenizerJson, AByteWithoutATokenWouldBeLost) {
  json value = small_tokenizer_json();
  value["model"]["vocab"].erase("z");
  expect_contains(refusal(value.dump()), "/model/vocab has no token \"z\" for the byte 122");
}

// As the published vocabularies of GPT-NeoX, Pythia and OLMo 1.
TEST(TokenizerJson, BytesThatTextNeverHasNeedNoToken) {
  json value = small_tokenizer_json();
  const auto erase = [&](unsigned byte) {
    value["model"]["vocab"].erase(token_of_byte(static_cast<unsigned char>(byte)));
  };
  for (const unsigned byte : {0xC0, 0xC1}) erase(byte);
  for (unsigned byte = 0xF5; byte < 0x100; ++byte) erase(byte);
  const TokenizerJson read = read_tokenizer_json(value.dump(), "x.json");
  EXPECT_FALSE(read.model.unk_id);
  IdBuffer ids;
  ByteBpe::Scratch scratch;
  ByteBpe(read.model).encode_word("a\xC0z", scratch, ids);  // left out, as by the library
  EXPECT_EQ(std::vector<int32_t>(ids.ids().begin(), ids.ids().end()),
            (std::vector<int32_t>{'a', 'z'}));
  erase(0xF4);
  erase(0xC2);
  expect_contains(refusal(value.dump()), "for the byte 194, 244, and /model/unk_token");
}

TEST(TokenizerJson, DamageIsToldWithItsPlace) {
  const std::string whole = small_tokenizer_json().dump();
  for (size_t size = 0; size < whole.size(); size += 37)
    expect_contains(refusal(whole.substr(0, size)), "x.json: not JSON at byte");
  expect_contains(refusal(whole.substr(0, 20) + '\0'), "is zero");
  expect_contains(refusal(R"({"model": {}, "model": {}})"), "stands twice");
  expect_contains(refusal("[1]"), "the whole file is array, not an object");
  expect_contains(refusal(std::string(100'000, '[')), "nested deeper");
}

// Both spellings of merges, a template, and a token that is in the vocabulary already.
TEST(TokenizerJson, ReadsWhatOtherFilesHave) {
  json value = small_tokenizer_json();
  value["model"]["merges"] = {"#version: 0.2", {"a", "b"}, "ab c"};
  value["added_tokens"] = {{{"id", 97}, {"content", "a"}}, token()};
  value["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<a>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "<a>"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{"<a>", {{"id", "<a>"}, {"ids", {258}}, {"tokens", {"<a>"}}}}}}};
  const TokenizerJson read = read_tokenizer_json(value.dump(), "x.json");
  EXPECT_EQ(read.pieces.size(), 259U);
  ASSERT_EQ(read.model.merges.size(), 2U);
  EXPECT_EQ(read.model.merges[1].joined, 257);
  EXPECT_EQ(read.added.size(), 2U);
  EXPECT_EQ(read.first_ids, std::vector<int32_t>{258});
  EXPECT_EQ(read.last_ids, std::vector<int32_t>{258});
}

}  // namespace
}  // namespace lmtrain
