#include "tokenizer/byte_bpe.h"

#include <map>
#include <random>

#include "tokenizer/tokenizer_json.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

// Joins as the definition says: the pair of the lowest rank, the leftmost of several.
class Definition {
 public:
  explicit Definition(const BpeModel& model) {
    for (size_t id = 0; id < model.tokens.size(); ++id) {
      const auto& token = model.tokens[id];
      if (token && token->size() == 1) bytes_[token->front()] = static_cast<int32_t>(id);
      if (token && model.ignores_merges) words_.emplace(*token, static_cast<int32_t>(id));
    }
    for (size_t rank = 0; rank < model.merges.size(); ++rank) {
      const BpeModel::Merge& merge = model.merges[rank];
      joins_[{merge.left, merge.right}] = {rank, merge.joined};
    }
  }

  Ids encode(std::string_view word) const {
    if (const auto whole = words_.find(word); whole != words_.end()) return {whole->second};
    Ids ids;
    for (const char byte : word) ids.push_back(bytes_.at(byte));
    for (;;) {
      auto best = joins_.end();
      size_t place = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = joins_.find({ids[i], ids[i + 1]});
        if (found == joins_.end()) continue;
        if (best != joins_.end() && found->second.first >= best->second.first) continue;
        best = found;
        place = i;
      }
      if (best == joins_.end()) return ids;
      ids[place] = best->second.second;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
  }

 private:
  std::map<char, int32_t> bytes_;
  std::map<std::string, int32_t, std::less<>> words_;
  std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> joins_;
};

// Short words are joined by a scan of ranks, long ones by a queue; both come out of a cache the
// second time, where they fit.
TEST(ByteBpe, JoinsWordsOfAnyLengthAsDefined) {
  const TokenizerJson json = read_tokenizer_json(reference_tokenizer_json("byte_bpe"), "x.json");
  const Definition definition(json.model);
  const ByteBpe bpe(json.model);
  ByteBpe::Scratch scratch;
  std::mt19937_64 random(5);
  constexpr std::string_view kLetters = " eeettaaooiinnsrhld_self.(),\n";
  std::vector<std::string> texts;
  for (size_t i = 0; i < 3000; ++i) {
    std::string& word = texts.emplace_back();
    for (size_t size = 1 + i % 70; size > 0; --size) word += kLetters[random() % kLetters.size()];
  }
  Ids expected;
  for (const std::string& text : texts) {
    const Ids ids = definition.encode(text);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  for (int pass = 0; pass < 2; ++pass) {
    IdBuffer ids;
    for (const std::string& text : texts) bpe.encode_word(text, scratch, ids);
    EXPECT_EQ(Ids(ids.ids().begin(), ids.ids().end()), expected);
  }
}

// Text of characters of one to four bytes, some of them malformed, without a space.
std::string text_of(std::mt19937_64& random, size_t characters) {
  constexpr std::array<std::string_view, 18> kCharacters = {
      "a",  "b",  ".", "7", "é", "ж", "я", "中",   "文",
      "字", "一", "ก", "า", "น", "😀", "𝒳", "\x80", "\xE4\xB8"};
  std::string text;
  for (; characters > 0; --characters) {
    // Malformed ones are rare.
    const size_t kind = random() % 30 == 0 ? 16 + random() % 2 : random() % 16;
    text += kCharacters[kind];
  }
  return text;
}

// A model with a token for every byte and `count` merges of neighbours of random text: many join
// parts of characters. Beside them it has tokens that no merge gives.
BpeModel random_model(std::mt19937_64& random, size_t count, bool ignores_merges) {
  BpeModel model;
  model.ignores_merges = ignores_merges;
  std::map<std::string, int32_t> ids;
  const auto id_of = [&](const std::string& token) {
    const auto [entry, is_new] = ids.emplace(token, static_cast<int32_t>(model.tokens.size()));
    if (is_new) model.tokens.emplace_back(token);
    return entry->second;
  };
  for (int byte = 0; byte < 256; ++byte) id_of(std::string(1, static_cast<char>(byte)));
  while (model.merges.size() < count) {
    const Ids encoded = Definition(model).encode(text_of(random, 4 + random() % 8));
    if (encoded.size() < 2) continue;
    const size_t place = random() % (encoded.size() - 1);
    const int32_t left = encoded[place], right = encoded[place + 1];
    const std::string joined =
        *model.tokens[static_cast<size_t>(left)] + *model.tokens[static_cast<size_t>(right)];
    model.merges.push_back({left, right, id_of(joined)});
  }
  for (int i = 0; i < 20; ++i) id_of(text_of(random, 1 + random() % 3));
  return model;
}

// Long words are joined by a queue, and remembered.
TEST(ByteBpe, WordsOfAnyCharactersHaveTheIdsOfTheDefinition) {
  std::mt19937_64 random(17);
  for (int trial = 0; trial < 60; ++trial) {
    const BpeModel model = random_model(random, 1 + random() % 60, trial % 2 == 1);
    const Definition definition(model);
    const ByteBpe bpe(model);
    ByteBpe::Scratch scratch;
    for (int i = 0; i < 40; ++i) {
      const std::string word = text_of(random, 1 + random() % (i % 10 == 0 ? 120 : 20));
      IdBuffer ids;
      bpe.encode_word(word, scratch, ids);
      EXPECT_EQ(Ids(ids.ids().begin(), ids.ids().end()), definition.encode(word))
          << testing::PrintToString(word);
    }
  }
}

// A file may have merges of tokens that are no bytes. No word contains these tokens.
TEST(ByteBpe, AMergeThatNoWordNeedsIsNoObstacle) {
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte)
    model.tokens.emplace_back(std::string(1, static_cast<char>(byte)));
  model.tokens.resize(258);  // two tokens without bytes
  model.merges = {{256, 'a', 257}};
  const ByteBpe bpe(model);
  ByteBpe::Scratch scratch;
  IdBuffer ids;
  bpe.encode_word("ab", scratch, ids);
  EXPECT_EQ(Ids(ids.ids().begin(), ids.ids().end()), (Ids{'a', 'b'}));
}

// A scratch that has seen many long words encodes them in another way.
TEST(ByteBpe, LongWordsKeepTheirIdsAfterMany) {
  std::mt19937_64 random(23);
  for (const bool ignores_merges : {false, true}) {
    const BpeModel model = random_model(random, 150, ignores_merges);
    const Definition definition(model);
    const ByteBpe bpe(model);
    ByteBpe::Scratch scratch;
    IdBuffer ids;
    bpe.encode_word(text_of(random, 200'000), scratch, ids);
    for (int i = 0; i < 300; ++i) {
      const std::string word = text_of(random, 1 + random() % 60);
      ids.clear();
      bpe.encode_word(word, scratch, ids);
      EXPECT_EQ(Ids(ids.ids().begin(), ids.ids().end()), definition.encode(word))
          << testing::PrintToString(word);
    }
  }
}

}  // namespace
}  // namespace lmtrain
