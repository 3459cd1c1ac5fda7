#include "tokenizer/bpe_backtracker.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

struct Merge {
  int32_t left;
  int32_t right;
  int32_t joined;
};

// Symbols 0 to num_letters - 1 are the letters "a", "b", ...
struct Model {
  explicit Model(int num_letters) {
    for (int i = 0; i < num_letters; ++i) {
      letters.push_back(symbol(std::string(1, static_cast<char>('a' + i))));
    }
  }
  int32_t symbol(const std::string& text) {
    const auto [entry, is_new] = symbols.emplace(text, static_cast<int32_t>(texts.size()));
    if (is_new) texts.push_back(text);
    return entry->second;
  }
  void add(int32_t left, int32_t right) {
    merges.push_back(
        {left, right,
         symbol(texts[static_cast<size_t>(left)] + texts[static_cast<size_t>(right)])});
  }
  std::optional<BpeBacktracker> backtracker(const PairRanks& ranks) const {
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    return BpeBacktracker::of(views, letters, merges, ranks);
  }

  std::map<std::string, int32_t> symbols;
  std::vector<std::string> texts;
  Ids letters;
  std::vector<Merge> merges;
};

// The merges one by one: the lowest rank, the leftmost of equal ranks.
Ids by_merges(const Model& model, const PairRanks& ranks, std::string_view word) {
  Ids ids;
  for (const char letter : word) ids.push_back(model.symbols.at(std::string(1, letter)));
  for (;;) {
    size_t best = 0;
    uint32_t rank = BpeJoin::kNone;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ranks.rank(ids[i], ids[i + 1]) >= rank) continue;
      rank = ranks.rank(ids[i], ids[i + 1]);
      best = i;
    }
    if (rank == BpeJoin::kNone) return ids;
    ids[best] = ranks.joined(rank);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string word_of(std::mt19937_64& random, int num_letters, size_t size) {
  std::string word;
  // A run of one letter is a case of its own: its merges have equal ranks.
  while (word.size() < size) {
    const auto letter = static_cast<char>('a' + random() % static_cast<size_t>(num_letters));
    word.append(random() % 4 == 0 ? 1 + random() % 6 : 1, letter);
  }
  return word.substr(0, size);
}

void expect_equal(const Model& model, std::mt19937_64& random) {
  const PairRanks ranks(model.merges);
  const std::optional<BpeBacktracker> backtracker = model.backtracker(ranks);
  ASSERT_TRUE(backtracker);
  BpeBacktracker::Scratch scratch;
  for (int i = 0; i < 60; ++i) {
    const std::string word =
        word_of(random, static_cast<int>(model.letters.size()), 1 + random() % 90);
    Ids ids = {-7};
    ASSERT_TRUE(backtracker->encode(word, scratch, ids));
    Ids expected = by_merges(model, ranks, word);
    expected.insert(expected.begin(), -7);
    ASSERT_EQ(ids, expected) << word;
  }
}

// A merge joins neighbours of text that the merges before have encoded, as in training.
Model trained(std::mt19937_64& random, int num_letters, size_t num_merges) {
  Model model(num_letters);
  for (int tries = 0; model.merges.size() < num_merges && tries < 1000; ++tries) {
    const PairRanks ranks(model.merges);
    const Ids ids = by_merges(model, ranks, word_of(random, num_letters, 2 + random() % 20));
    if (ids.size() < 2) continue;
    const size_t place = random() % (ids.size() - 1);
    const std::string text = model.texts[static_cast<size_t>(ids[place])] +
                             model.texts[static_cast<size_t>(ids[place + 1])];
    // Another merge of the same text comes where no text leads.
    if (!model.symbols.contains(text)) model.add(ids[place], ids[place + 1]);
  }
  return model;
}

TEST(BpeBacktracker, GivesTheIdsOfTheMerges) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    expect_equal(trained(random, 1 + trial % 5, random() % 60), random);
  }
}

// Files converted from lists of tokens have each split of a token as a merge, one behind the other.
TEST(BpeBacktracker, LeavesOutMergesThatNoTextReaches) {
  std::mt19937_64 random(4);
  size_t more = 0;
  size_t refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const Model from = trained(random, 2 + trial % 4, 40);
    Model model = from;
    model.merges.clear();
    for (const Merge& merge : from.merges) {
      const std::string& text = from.texts[static_cast<size_t>(merge.joined)];
      for (size_t size = 1; size < text.size(); ++size) {
        const auto left = from.symbols.find(text.substr(0, size));
        const auto right = from.symbols.find(text.substr(size));
        if (left != from.symbols.end() && right != from.symbols.end())
          model.add(left->second, right->second);
      }
    }
    more += model.merges.size() - from.merges.size();
    if (!model.backtracker(PairRanks(model.merges))) {
      ++refused;
      continue;
    }
    expect_equal(model, random);
  }
  EXPECT_GT(more, 1000U);
  EXPECT_LT(refused, 100U);
}

// Merges in any order: a model is encoded by its merges, or refused.
TEST(BpeBacktracker, RefusesAModelWhoseMergesComeBeforeTheirParts) {
  std::mt19937_64 random(5);
  size_t refused = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Model model = trained(random, 2 + trial % 3, 12);
    for (int i = trial % 4; i > 0; --i)
      std::swap(model.merges[random() % model.merges.size()],
                model.merges[random() % model.merges.size()]);
    if (model.backtracker(PairRanks(model.merges))) {
      expect_equal(model, random);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 20U);
  EXPECT_LT(refused, 380U);

  Model model(3);
  const int32_t bc = model.symbol("bc");
  model.add(0, bc);  // of a part that comes later
  model.add(1, 2);
  EXPECT_FALSE(model.backtracker(PairRanks(model.merges)));
}

TEST(BpeBacktracker, LeavesAWordWithAByteThatNoSymbolHas) {
  Model model(2);
  model.add(0, 1);
  const PairRanks ranks(model.merges);
  const std::optional<BpeBacktracker> backtracker = model.backtracker(ranks);
  BpeBacktracker::Scratch scratch;
  Ids ids = {5};
  EXPECT_FALSE(backtracker->encode("ababzab", scratch, ids));
  EXPECT_EQ(ids, Ids{5});
}

}  // namespace
}  // namespace lmtrain
