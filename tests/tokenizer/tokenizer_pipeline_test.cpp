#include "tokenizer/tokenizer_pipeline.h"

#include <thread>

#include "prepare/folder.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

TokenizerPipeline tokenizer_of(const std::string& bytes) {
  return TokenizerPipeline(read_tokenizer_json(bytes, "x.json"));
}
TokenizerPipeline tokenizer_of(const json& value) { return tokenizer_of(value.dump()); }

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

json added(int id, const std::string& content, const json& options = json::object()) {
  json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", false}};
  token.update(options);
  return token;
}

// Twice, since words come out of the cache the second time.
TEST(TokenizerPipeline, GivesTheIdsOfTheLibrary) {
  const json golden = json::parse(read_file(kTokenizerJsons / "golden.json"));
  ASSERT_EQ(golden.at("ids").size(), 19U);
  for (const auto& [name, ids] : golden.at("ids").items()) {
    const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json(name));
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const std::string text = from_hex(golden.at("texts")[i]);
        EXPECT_EQ(tokenizer.encode(text), ids[i].get<Ids>()) << name << ": " << text;
      }
    }
  }
}

TEST(TokenizerPipeline, DecodesAsTheLibrary) {
  const json golden = json::parse(read_file(kTokenizerJsons / "golden.json"));
  ASSERT_EQ(golden.at("decoded").size(), 18U);
  for (const auto& [name, cases] : golden.at("decoded").items()) {
    const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json(name));
    ASSERT_GE(cases.size(), 40U);
    for (const json& one : cases)
      EXPECT_EQ(tokenizer.decode(one[0].get<Ids>()), one[1].get<std::string>()) << name << one[0];
  }
}

// Of tokens whose characters are spelled in bytes where they have no token.
TEST(TokenizerPipeline, SpacesAndBytesOfCharacterModelsCount) {
  const json golden = json::parse(read_file(kTokenizerJsons / "golden.json"));
  const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json("gemma"));
  const std::vector<uint32_t> sizes = tokenizer.piece_bytes();
  EXPECT_TRUE(tokenizer.space_in_bytes().empty());
  for (const json& hex : golden.at("texts")) {
    const std::string text = from_hex(hex);
    // The mark for a space is read as one, and special tokens stand for no text.
    if (text.find("\u2581") != std::string::npos || text.find('<') != std::string::npos) continue;
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    size_t size = 0;
    for (const int32_t id : ids) size += sizes[static_cast<size_t>(id)];
    EXPECT_EQ(size, text.size()) << text;
  }
}

// Where a text can be cut and where it cannot, it has the same ids.
TEST(TokenizerPipeline, ACharacterModelMayMergeBytesAndUnk) {
  json value = small_tokenizer_json();
  value["pre_tokenizer"] = nullptr;
  value["decoder"] = {{"type", "ByteFallback"}};
  value["model"] = {{"type", "BPE"},
                    {"unk_token", "?"},
                    {"byte_fallback", true},
                    {"merges", json::array({"<0xC3> <0xA9>", "? a"})}};
  const char* const tokens[] = {"a", "<0xC3>", "<0xA9>", "<0xC3><0xA9>", "?", "?a"};
  for (size_t id = 0; id < std::size(tokens); ++id) value["model"]["vocab"][tokens[id]] = id;
  // Unknown characters wait for the next known one, behind bytes too.
  EXPECT_EQ(tokenizer_of(value).encode("a\u00e9a\u20aca"), (Ids{0, 3, 0, 5}));
  EXPECT_EQ(tokenizer_of(value).encode("\u20ac\u00e9\u20aca"), (Ids{3, 4, 5}));
  value["model"]["fuse_unk"] = true;
  EXPECT_EQ(tokenizer_of(value).encode("\u20ac\u00e9\u20aca"), (Ids{3, 5}));
  EXPECT_EQ(tokenizer_of(value).encode("a"), Ids{0});
}

TEST(TokenizerPipeline, DecodesToTheText) {
  const json golden = json::parse(read_file(kTokenizerJsons / "golden.json"));
  for (const char* name : {"gpt2", "llama3", "smollm", "o200k", "deepseek"}) {
    const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json(name));
    const std::vector<uint32_t> sizes = tokenizer.piece_bytes();
    for (const json& hex : golden.at("texts")) {
      const std::string text = from_hex(hex);
      if (text.find("<|") != std::string::npos || text.find('<') != std::string::npos) continue;
      const Ids ids = tokenizer.encode(text);
      EXPECT_EQ(tokenizer.decode(ids), text) << name;
      size_t size = 0;
      for (const int32_t id : ids) size += sizes[static_cast<size_t>(id)];
      EXPECT_EQ(size, text.size()) << name;
    }
  }
}

TEST(TokenizerPipeline, SpecialTokensAreNoText) {
  const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json("llama3"));
  const int32_t end = tokenizer.id_of("<|end_of_text|>");
  ASSERT_GE(end, 0);
  EXPECT_EQ(tokenizer.encode("a<|end_of_text|>b"),
            (Ids{tokenizer.id_of("a"), end, tokenizer.id_of("b")}));
  EXPECT_EQ(tokenizer.decode({tokenizer.id_of("a"), end, tokenizer.id_of("b")}), "ab");
  EXPECT_EQ(tokenizer.piece_bytes()[static_cast<size_t>(end)], 0U);
  EXPECT_EQ(tokenizer.first_ids(), Ids{tokenizer.id_of("<|begin_of_text|>")});
  EXPECT_TRUE(tokenizer.last_ids().empty());
}

// Each malformed byte is read as U+FFFD; parts of characters decode to one U+FFFD each.
TEST(TokenizerPipeline, MalformedBytesAreReplaced) {
  const TokenizerPipeline tokenizer = tokenizer_of(small_tokenizer_json());
  EXPECT_EQ(tokenizer.encode("a\xFF\xC3"), tokenizer.encode("a\uFFFD\uFFFD"));
  EXPECT_EQ(tokenizer.encode("\xED\xA0\x80"), tokenizer.encode("\uFFFD\uFFFD\uFFFD"));
  EXPECT_EQ(tokenizer.decode({0x61, 0xE2, 0x82}), "a\uFFFD");
  EXPECT_EQ(tokenizer.decode({0xE2, 0x82, 0xAC}), "\u20AC");
  EXPECT_EQ(tokenizer.decode({0xF0, 0x80, 0x61}), "\uFFFD\uFFFDa");
}

TEST(TokenizerPipeline, JoinsByRankThenLeftmost) {
  const TokenizerPipeline tokenizer = tokenizer_of(small_tokenizer_json());
  EXPECT_EQ(tokenizer.encode("abcab"), (Ids{257, 256}));
  // 100,000 bytes in one word: the queue of candidates.
  std::string text;
  Ids expected;
  for (int i = 0; i < 50'000; ++i) {
    text += "ab";
    expected.push_back(256);
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST(TokenizerPipeline, IgnoresMergesOfWordsThatAreTokens) {
  json value = small_tokenizer_json();
  value["model"]["vocab"]["bca"] = 258;
  EXPECT_EQ(tokenizer_of(value).encode("bca"), (Ids{'b', 'c', 'a'}));
  value["model"]["ignore_merges"] = true;
  EXPECT_EQ(tokenizer_of(value).encode("bca"), Ids{258});
}

TEST(TokenizerPipeline, UnkStandsForAByteThatIsNoToken) {
  json value = small_tokenizer_json();
  value["model"]["vocab"].erase("z");
  value["model"]["vocab"]["<unk>"] = 258;
  value["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(tokenizer_of(value).encode("zza"), (Ids{258, 258, 'a'}));
  value["model"]["fuse_unk"] = true;
  EXPECT_EQ(tokenizer_of(value).encode("zza"), (Ids{258, 'a'}));
}

// The library keeps what a token with rstrip has taken for the tokens behind it.
TEST(TokenizerPipeline, AddedTokensTakeSpace) {
  json value = small_tokenizer_json();
  value["added_tokens"] = {added(258, "<a>", {{"rstrip", true}}), added(259, "  ")};
  EXPECT_EQ(tokenizer_of(value).encode("x<a>     y"), (Ids{'x', 258, 259, 259, ' ', 'y'}));
  value["added_tokens"] = {added(258, "<a>", {{"lstrip", true}}), added(259, "  ")};
  EXPECT_EQ(tokenizer_of(value).encode("x   <a>"), (Ids{'x', 259, 258}));
  value["added_tokens"] = json::array({added(258, "foo", {{"single_word", true}})});
  EXPECT_EQ(tokenizer_of(value).encode("foo"), Ids{258});
  EXPECT_EQ(tokenizer_of(value).encode("_foo"), (Ids{'_', 'f', 'o', 'o'}));
}

TEST(TokenizerPipeline, ThreadsShareIt) {
  const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json("qwen2"));
  const std::string text = read_file(std::filesystem::path(LMTRAIN_SOURCE_DIR) / "LICENSE");
  const Ids expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<Ids> found(4);
  for (Ids& ids : found) threads.emplace_back([&] { ids = tokenizer.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

// Runs of one kind are linear in every rule.
TEST(TokenizerPipeline, LongRunsAreNoTrouble) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "o200k", "deepseek", "bloom", "falcon",
                           "llama2", "mistral", "gemma", "lowercase"}) {
    const TokenizerPipeline tokenizer = tokenizer_of(reference_tokenizer_json(name));
    for (const char* part : {" ", "a", "1", "\n", " \n", "'", "\u4e00", "\u0301", "!"}) {
      std::string text;
      while (text.size() < 200'000) text += part;
      EXPECT_FALSE(tokenizer.encode(text).empty()) << name;
    }
  }
}

}  // namespace
}  // namespace lmtrain
