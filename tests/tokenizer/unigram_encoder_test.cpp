#include "tokenizer/unigram_encoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tokenizer/model_bytes.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

// Made by tests/reference/sentencepiece_unigram.py with sentencepiece 0.2.3.
const fs::path kReference = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/sentencepiece_unigram";

class UnigramReference : public ::testing::TestWithParam<const char*> {};

TEST_P(UnigramReference, IdsAreThoseOfTheCurrentRelease) {
  const Tokenizer tokenizer = Tokenizer::load(kReference / (GetParam() + std::string(".model")));
  EXPECT_EQ(tokenizer.why_slow(), "");
  const Json golden = Json::parse(read_file(kReference / "golden.json"));
  const Json& texts = golden.at("texts");
  const Json& ids = golden.at("ids").at(GetParam());
  const Json& decoded = golden.at("decoded").at(GetParam());
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i].get<std::string>().substr(0, 80));
    EXPECT_EQ(tokenizer.encode(texts[i].get<std::string>()), ids[i].get<Ids>());
    EXPECT_EQ(tokenizer.decode(ids[i].get<Ids>()), decoded[i].get<std::string>());
  }
  // A text so long that scores are counted anew: all others, eight times.
  std::string all;
  for (const Json& text : texts) all += text.get<std::string>();
  std::string last;
  for (int i = 0; i < 8; ++i) last += all;
  uint64_t hash = 0;
  for (const int32_t id : tokenizer.encode(last)) hash = hash * 1000003 + static_cast<uint64_t>(id);
  EXPECT_EQ(hash, golden.at("hash_of_last").at(GetParam()).get<uint64_t>());
}

INSTANTIATE_TEST_SUITE_P(Models, UnigramReference,
                         ::testing::Values("nfkc", "lossless", "symbols", "suffix"));

SentencePieceModel model_of(std::vector<ModelPiece> pieces) {
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown}};
  model.pieces.insert(model.pieces.end(), pieces.begin(), pieces.end());
  model.adds_prefix = false;
  model.removes_spaces = false;
  return model;
}

Ids encode(const SentencePieceModel& model, std::string_view text, bool adds_prefix = true) {
  const UnigramEncoder encoder(model);
  UnigramEncoder::Scratch scratch;
  Ids ids;
  encoder.encode(text, scratch, ids, adds_prefix);
  return ids;
}

TEST(UnigramEncoder, TakesTheMostLikelyPieces) {
  const SentencePieceModel model = model_of({{"a", -1}, {"b", -1}, {"ab", -1.5}, {"abc", -9}});
  EXPECT_EQ(encode(model, "ab"), (Ids{3}));
  EXPECT_EQ(encode(model, "aabb"), (Ids{1, 3, 2}));
  EXPECT_EQ(encode(model, "abc"), (Ids{4}));  // an unknown character costs more
  EXPECT_EQ(encode(model, ""), Ids());
}

TEST(UnigramEncoder, ARunOfUnknownCharactersIsOnePiece) {
  const SentencePieceModel model = model_of({{"a", -1}});
  EXPECT_EQ(encode(model, "xyza\xE6\x97\xA5y"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(model, "\xFF\xFE"), (Ids{0}));
}

TEST(UnigramEncoder, ThePrefixIsThereWhereItIsAskedFor) {
  SentencePieceModel model = model_of({{"a", -1},
                                       {"\xE2\x96\x81", -1},
                                       {"\xE2\x96\x81"
                                        "a",
                                        -1.5}});
  model.adds_prefix = true;
  EXPECT_EQ(encode(model, "a a"), (Ids{3, 3}));
  EXPECT_EQ(encode(model, "a a", /*adds_prefix=*/false), (Ids{1, 3}));
  model.removes_spaces = true;
  EXPECT_EQ(encode(model, "  a   a "), (Ids{3, 3}));
}

TEST(UnigramEncoder, UnusedPiecesAreNotThere) {
  EXPECT_EQ(encode(model_of({{"a", -1}, {"aa", -1, PieceType::kUnused}}), "aa"), (Ids{1, 1}));
}

// Many nodes with many children, which need many blocks.
TEST(ByteTrie, FindsEveryTextAndNoOther) {
  std::vector<ByteTrie::Entry> entries;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t left = static_cast<uint64_t>(i) * 2654435761U; left > 0; left /= 251)
      text.push_back(static_cast<char>(left % 251));
    entries.push_back({text.empty() ? "\xFE" : text, i});
  }
  const ByteTrie trie(entries);
  for (const ByteTrie::Entry& entry : entries) {
    int32_t found = -1;
    EXPECT_EQ(trie.longest(entry.text, &found), entry.text.size());
    EXPECT_EQ(found, entry.value);
    EXPECT_LE(trie.longest(entry.text + '\xFF'), entry.text.size());
  }
  EXPECT_EQ(trie.longest("\xFF"), 0U);
  EXPECT_TRUE(ByteTrie({}).empty());
  EXPECT_EQ(ByteTrie({}).longest("a"), 0U);
}

}  // namespace
}  // namespace lmtrain
