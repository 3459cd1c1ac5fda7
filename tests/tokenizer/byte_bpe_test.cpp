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
  explicit Definition(const ByteBpeModel& model) {
    for (size_t id = 0; id < model.tokens.size(); ++id) {
      const auto& token = model.tokens[id];
      if (token && token->size() == 1) bytes_[token->front()] = static_cast<int32_t>(id);
    }
    for (size_t rank = 0; rank < model.merges.size(); ++rank) {
      const ByteBpeModel::Merge& merge = model.merges[rank];
      joins_[{merge.left, merge.right}] = {rank, merge.joined};
    }
  }

  Ids encode(std::string_view word) const {
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

}  // namespace
}  // namespace lmtrain
