#include "tokenizer/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tokenizer/trained_words.h"

namespace lmtrain {
namespace {

using Pieces = std::vector<std::string>;

// The definition, slowly: count all neighbours of all words anew for every piece. ASCII only.
Pieces learn_slowly(const WordCounts& words, size_t num_merges) {
  struct Split {
    Pieces symbols;
    int64_t count;
  };
  std::vector<Split> splits;
  for (const auto& [text, count] : words) {
    splits.push_back({{}, count});
    for (const char c : text) splits.back().symbols.emplace_back(1, c);
  }
  const auto is_valid = [](const std::string& text) {
    const size_t spaces = std::min(text.find_first_not_of(' '), text.size());
    return text.size() <= 16 && (spaces <= 1 || spaces == text.size());
  };
  const auto join = [&](Split& split, const std::string& piece) {
    bool changed = false;
    for (size_t i = 0; i + 1 < split.symbols.size(); ++i) {
      if (split.symbols[i] + split.symbols[i + 1] != piece) continue;
      split.symbols[i] = piece;
      split.symbols.erase(split.symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      changed = true;
    }
    return changed;
  };
  Pieces merges;
  while (merges.size() < num_merges) {
    std::map<std::string, int64_t> counts;
    for (const Split& split : splits) {
      std::string previous;
      for (size_t i = 0; i + 1 < split.symbols.size(); ++i) {
        const std::string text = split.symbols[i] + split.symbols[i + 1];
        const bool overlaps = text == previous;
        previous = overlaps ? "" : text;
        if (!is_valid(text)) previous = "";
        if (is_valid(text) && !overlaps) counts[text] += split.count;
      }
    }
    if (counts.empty()) break;
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          if (a.second != b.second) return a.second < b.second;
          return a.first.size() != b.first.size() ? a.first.size() > b.first.size()
                                                  : a.first > b.first;
        });
    merges.push_back(best->first);
    // Older pieces that can be joined again come first, as in the encoder.
    for (Split& split : splits) {
      join(split, merges.back());
      for (bool changed = true; changed;) {
        changed = false;
        for (const std::string& piece : merges) changed = changed || join(split, piece);
      }
    }
  }
  return merges;
}

TEST(BpeTrainer, ByHand) {
  // ab 5 times, bc 4: "ab" first, then "abc" (3: xabc, abc twice) before "bc" (1).
  const BpePieces pieces = train_bpe({{"abc", 2}, {"ab", 2}, {"xabc", 1}, {"bc", 1}}, 7, 1.0);
  EXPECT_EQ(pieces.characters, Pieces({"b", "a", "c", "x"}));
  EXPECT_EQ(pieces.merges, Pieces({"ab", "abc", "bc"}));
}

TEST(BpeTrainer, RunsCountWithoutOverlap) {
  // "aaa" holds "aa" once: 3 in all, fewer than the 4 of "bc".
  EXPECT_EQ(train_bpe({{"aaa", 3}, {"bc", 4}}, 4, 1.0).merges, Pieces({"bc"}));
}

TEST(BpeTrainer, SpacesStandInFrontOrAlone) {
  const BpePieces pieces = train_bpe({{"    ab", 10}, {" ab", 1}}, 100, 1.0);
  const std::set<std::string> merges(pieces.merges.begin(), pieces.merges.end());
  EXPECT_TRUE(merges.contains("    "));
  for (const std::string& piece : merges) {
    EXPECT_TRUE(piece.find_first_not_of(' ') <= 1 ||
                piece.find_first_not_of(' ') == std::string::npos)
        << piece;
  }
}

TEST(BpeTrainer, AgreesWithTheDefinition) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    std::map<std::string, int64_t> counts;
    for (int i = 0; i < 40; ++i) {
      std::string word(random() % 3 == 0 ? 1 + random() % 3 : 0, ' ');
      for (size_t size = 1 + random() % 12; size > 0; --size)
        word += static_cast<char>('a' + random() % (2 + seed % 4));
      counts[word] += static_cast<int64_t>(1 + random() % 5);
    }
    const WordCounts words(counts.begin(), counts.end());
    const BpePieces pieces = train_bpe(words, 60, 1.0);
    ASSERT_EQ(pieces.merges, learn_slowly(words, 60 - pieces.characters.size())) << "seed " << seed;
  }
}

// Long runs, in which pairs overlap, and pieces that are spelled anew by other joins.
TEST(BpeTrainer, AgreesWithTheDefinitionOnLongWords) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    WordCounts words;
    for (int i = 0; i < 3; ++i) {
      std::string word;
      while (word.size() < 150) {
        const std::string part(1 + random() % 9, static_cast<char>('a' + random() % 3));
        word += random() % 2 == 0 ? part : "abcab";
      }
      words.emplace_back(word, 1 + static_cast<int64_t>(random() % 2));
    }
    const BpePieces pieces = train_bpe(words, 40, 1.0);
    ASSERT_EQ(pieces.merges, learn_slowly(words, 40 - pieces.characters.size())) << "seed " << seed;
  }
}

TEST(BpeTrainer, WordsOfManyScriptsGiveTheGoldenPieces) {
  for (const GoldenVocabulary& golden : golden_vocabularies()) {
    const auto num_characters =
        static_cast<int64_t>(train_bpe(golden.words, 0, 1.0).characters.size());
    EXPECT_EQ(train_bpe(golden.words, num_characters + 60, 1.0).merges, golden.pieces)
        << golden.name;
  }
}

// Work is counted, not time: a trainer that goes through a whole word at each merge looks at a
// hundred times as many places.
TEST(BpeTrainer, WorkIsLinearForWordsOfAnyLength) {
  for (const WordsOfOneLength& text : words_of_all_lengths(60'000)) {
    uint64_t work = 0;
    const BpePieces pieces = train_bpe(text.words, 1000, 1.0, &work);
    EXPECT_GT(pieces.merges.size(), 3U) << text.name;
    EXPECT_GT(work, 0U) << text.name;
    EXPECT_LT(work, 6 * text.num_bytes) << text.name;
  }
}

TEST(BpeTrainer, RareCharactersAreLeftOut) {
  const BpePieces pieces = train_bpe({{"aaaa", 1000}, {"bz", 1}}, 100, 0.999);
  EXPECT_EQ(pieces.characters, Pieces({"a"}));
  EXPECT_EQ(pieces.merges, Pieces({"aa", "aaaa"}));
}

TEST(BpeTrainer, PiecesAreUniqueAndBounded) {
  const BpePieces pieces =
      train_bpe({{std::string(200, 'a'), 1}, {"abababababababababababab", 3}}, 1000, 1.0);
  std::set<std::string> seen;
  for (const std::string& piece : pieces.merges) {
    EXPECT_LE(piece.size(), 16U);
    EXPECT_TRUE(seen.insert(piece).second) << piece;
  }
}

}  // namespace
}  // namespace lmtrain
