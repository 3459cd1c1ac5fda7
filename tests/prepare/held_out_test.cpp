#include "prepare/held_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "base/hash.h"
#include "base/text.h"
#include "prepare/content_blocks.h"
#include "prepare/overlap.h"

namespace lmtrain {
namespace {

// Documents of several sources, and what HoldOut makes of them.
struct Texts {
  std::vector<std::string> documents;
  std::vector<int32_t> sources;

  void add(std::string text, int32_t source = 0) {
    documents.push_back(std::move(text));
    sources.push_back(source);
  }
  uint64_t size() const {
    uint64_t size = 0;
    for (const std::string& text : documents) size += text.size();
    return size;
  }
};

HoldOut decide(const Texts& texts, double fraction) {
  SourceShapes shapes;
  CommonDocuments common;
  for (size_t i = 0; i < texts.documents.size(); ++i) {
    const uint64_t hash = text_hash(hash128(texts.documents[i]));
    shapes.add(texts.sources[i], hash, texts.documents[i].size());
    common.add(texts.sources[i], hash, texts.documents[i].size());
  }
  HoldOut held_out(fraction, shapes.shapes(), common.groups(shapes.shapes().size()), kHoldOutBytes);
  held_out.choose([&](const auto& wanted, const auto& add) {
    for (size_t i = 0; i < texts.documents.size(); ++i) {
      if (!wanted(texts.sources[i])) continue;
      const std::string_view text = texts.documents[i];
      size_t begin = 0;
      for (const size_t end : block_ends(text, held_out.rule_of(texts.sources[i]).block)) {
        const std::string_view block = text.substr(begin, end - begin);
        add(texts.sources[i], text_hash(hash128(block)), block.size());
        begin = end;
      }
    }
  });
  return held_out;
}

std::vector<TextPart> parts_of(const HoldOut& held_out, const Texts& texts, size_t i) {
  const std::string& text = texts.documents[i];
  return cut_document(held_out, texts.sources[i], text, hash128(text));
}

uint64_t bytes_held_out(const HoldOut& held_out, const Texts& texts, int32_t source = -1) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < texts.documents.size(); ++i) {
    if (source >= 0 && texts.sources[i] != source) continue;
    for (const TextPart& part : parts_of(held_out, texts, i))
      if (part.held_out) bytes += part.text.size();
  }
  return bytes;
}

std::string random_text(std::mt19937_64& random, size_t size) {
  static const std::vector<std::string> kSnippets = {"a",
                                                     "word ",
                                                     "\n",
                                                     "\n\n",
                                                     "\r\n",
                                                     "\xC3\xA9",
                                                     "\xE2\x82\xAC",
                                                     "\xF0\x9F\x98\x80",
                                                     std::string(1, '\0'),
                                                     "\xFF",
                                                     "long line without an end "};
  const bool has_lines = random() % 3 > 0;
  std::string text;
  while (text.size() < size) {
    const std::string& snippet = kSnippets[random() % kSnippets.size()];
    if (has_lines || snippet.find('\n') == std::string::npos) text += snippet;
  }
  return text;
}

Texts random_texts(uint64_t seed) {
  std::mt19937_64 random(seed);
  Texts texts;
  const int32_t num_sources = 1 + static_cast<int32_t>(random() % 3);
  for (int32_t source = 0; source < num_sources; ++source) {
    const size_t documents = 1 + random() % (random() % 2 == 0 ? 5 : 200);
    const size_t longest = 1 + random() % (random() % 2 == 0 ? 300 : 60000);
    for (size_t i = 0; i < documents; ++i) {
      if (random() % 10 == 0 && !texts.documents.empty())
        texts.add(texts.documents[random() % texts.documents.size()], source);
      else
        texts.add(random_text(random, random() % longest), source);
    }
  }
  return texts;
}

TEST(HoldOut, NoByteIsOnBothSidesAndNoneIsLost) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Texts texts = random_texts(seed);
    for (const double fraction : {0.0, 1e-9, 0.01, 0.3}) {
      const HoldOut held_out = decide(texts, fraction);
      for (size_t i = 0; i < texts.documents.size(); ++i) {
        const std::vector<TextPart> parts = parts_of(held_out, texts, i);
        std::string all;
        for (size_t k = 0; k < parts.size(); ++k) {
          all += parts[k].text;
          if (k > 0) {
            EXPECT_NE(parts[k].held_out, parts[k - 1].held_out);
            EXPECT_FALSE(parts[k].text.empty());
          }
        }
        ASSERT_EQ(all, texts.documents[i]) << seed;
      }
      EXPECT_EQ(held_out.holds_out_any(), bytes_held_out(held_out, texts) > 0) << seed;
      EXPECT_TRUE(fraction > 0 || !held_out.holds_out_any());
    }
  }
}

TEST(HoldOut, TheOrderOfDocumentsDoesNotMatter) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Texts texts = random_texts(seed);
    Texts reversed = texts;
    std::reverse(reversed.documents.begin(), reversed.documents.end());
    std::reverse(reversed.sources.begin(), reversed.sources.end());
    EXPECT_EQ(decide(texts, 0.02).rules(), decide(reversed, 0.02).rules()) << seed;
  }
}

TEST(HoldOut, ManyShortDocumentsAreHeldOutByTheirHashAlone) {
  Texts texts;
  for (int i = 0; i < 4000; ++i) texts.add(str("document ", i, std::string(2000, 'x')), i % 2);
  const HoldOut held_out = decide(texts, 0.02);
  size_t count = 0;
  for (size_t i = 0; i < texts.documents.size(); ++i) {
    const std::vector<TextPart> parts = parts_of(held_out, texts, i);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts[0].held_out, is_below(text_hash(hash128(texts.documents[i])), 0.02));
    count += parts[0].held_out ? 1 : 0;
  }
  EXPECT_GT(count, 50U);
  EXPECT_LT(count, 110U);
  // Nothing but content and fraction is in the fingerprint.
  Hasher hasher;
  held_out.add_to(hasher, 0.02, Hash128{1, 2});
  EXPECT_EQ(hasher.digest(), Hasher().digest());
  Hasher other;
  held_out.add_to(other, 0.03, Hash128{1, 2});
  EXPECT_NE(other.digest(), Hasher().digest());
}

TEST(HoldOut, OneLongDocumentIsHeldOutInBlocks) {
  std::mt19937_64 random(1);
  Texts texts;
  std::string book;
  while (book.size() < 1'100'000) book += str("line ", random(), " of the book\n");
  texts.add(book);
  const HoldOut held_out = decide(texts, 0.01);
  // The floor is more than a hundredth.
  const uint64_t bytes = bytes_held_out(held_out, texts);
  EXPECT_GE(bytes, 65536U);
  EXPECT_LT(bytes, 65536U + 8192U);
  const std::vector<TextPart> parts = parts_of(held_out, texts, 0);
  EXPECT_GT(parts.size(), 20U) << "spread over the document";
  for (size_t i = 0; i + 1 < parts.size(); ++i) EXPECT_EQ(parts[i].text.back(), '\n');
}

TEST(HoldOut, TheFloorIsATenthAtMost) {
  std::mt19937_64 random(2);
  for (const size_t size : {3000U, 20'000U, 100'000U, 400'000U}) {
    Texts texts;
    texts.add(random_text(random, size));
    const uint64_t bytes = bytes_held_out(decide(texts, 0.01), texts);
    const double share = static_cast<double>(bytes) / static_cast<double>(texts.size());
    EXPECT_GE(share, 0.1 - 1e-3) << size;
    EXPECT_LT(share, 0.1 + 400.0 / static_cast<double>(size) + 0.01) << size;
  }
}

TEST(HoldOut, EachSourceHoldsOutItsShare) {
  std::mt19937_64 random(3);
  Texts texts;
  for (int i = 0; i < 300; ++i) texts.add(random_text(random, 1000 + random() % 5000), 0);
  for (int i = 0; i < 9; ++i) texts.add(random_text(random, 10'000), 1);
  texts.add(random_text(random, 500'000), 2);
  texts.add(random_text(random, 20'000), 3);
  const HoldOut held_out = decide(texts, 0.05);
  for (int32_t source = 0; source < 4; ++source) {
    double size = 0;
    for (size_t i = 0; i < texts.documents.size(); ++i)
      if (texts.sources[i] == source) size += static_cast<double>(texts.documents[i].size());
    const double share = static_cast<double>(bytes_held_out(held_out, texts, source)) / size;
    EXPECT_GE(share, 0.049) << source;
    EXPECT_LT(share, 0.08) << source;
  }
}

// Three hundred entries that each name a small file.
TEST(HoldOut, SmallSourcesAreTakenAsOne) {
  std::mt19937_64 random(4);
  Texts texts;
  for (int32_t i = 0; i < 300; ++i) texts.add(random_text(random, 3000), i);
  const HoldOut held_out = decide(texts, 0.01);
  EXPECT_EQ(held_out.rules().size(), 1U);
  const uint64_t bytes = bytes_held_out(held_out, texts);
  EXPECT_GE(bytes, 65000U);
  EXPECT_LT(bytes, 75000U);
}

// A text that makes up a half of the corpus is passed over, whatever its hash is.
TEST(HoldOut, TextRepeatedOftenDoesNotFillTheHeldOutSet) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    Texts texts;
    const std::string licence = random_text(random, 200);
    for (int i = 0; i < 30; ++i) texts.add(licence);
    for (int i = 0; i < 30; ++i) texts.add(random_text(random, 200));
    const uint64_t bytes = bytes_held_out(decide(texts, 0.01), texts);
    EXPECT_GE(bytes, texts.size() / 11) << round;
    EXPECT_LT(bytes, texts.size() / 6) << round;
  }
}

// Each of a hundred lines is repeated, in a changing order, so often that its copies are about the
// share: a line that was seen to be too large at first must not come back as a small one.
TEST(HoldOut, FewDifferentTextsGiveTheirShare) {
  std::mt19937_64 random(6);
  std::vector<std::string> table;
  for (int i = 0; i < 100; ++i) {
    table.push_back(str(i / 10, " times ", i % 10, " is ", random(), std::string(100, '.')));
  }
  for (const double fraction : {0.01, 0.0101, 0.0102}) {
    Texts texts;
    for (int i = 0; i < 60'000; ++i) texts.add(table[random() % table.size()]);
    for (int i = 0; i < 20'000; ++i) texts.add(table[static_cast<size_t>(i) % table.size()]);
    const double share = static_cast<double>(bytes_held_out(decide(texts, fraction), texts)) /
                         static_cast<double>(texts.size());
    EXPECT_GE(share, 0.9 * fraction) << fraction;
    EXPECT_LT(share, 3 * fraction) << fraction;
  }
}

// More different blocks than BlockChoice keeps, and some of them too heavy.
TEST(BlockChoice, GivesTheSmallestHashesThatAreNotHeavy) {
  std::mt19937_64 random(9);
  std::vector<std::pair<uint64_t, uint64_t>> blocks;  // hash, size
  for (int i = 0; i < 200'000; ++i) blocks.emplace_back(random(), 100);
  for (int i = 0; i < 100; ++i) {
    for (int copy = 0; copy < 300; ++copy) blocks.emplace_back(uint64_t{1} << (i % 50), 50'000 + i);
  }
  const uint64_t target = 7'000'000;
  std::map<uint64_t, uint64_t> sums;
  for (const auto& [hash, size] : blocks) sums[hash] += size;
  std::vector<uint64_t> expected;
  uint64_t sum = 0;
  for (const auto& [hash, size] : sums) {
    if (size > target || sum >= target) continue;
    expected.push_back(hash);
    sum += size;
  }
  ASSERT_GT(expected.size(), size_t{1} << 16);
  for (int order = 0; order < 3; ++order) {
    std::shuffle(blocks.begin(), blocks.end(), random);
    BlockChoice choice(target, 4096);
    do {
      for (const auto& [hash, size] : blocks) choice.add(hash, size);
    } while (!choice.end_pass());
    EXPECT_EQ(choice.chosen(), expected) << order;
  }
}

// Entries of different sizes would have blocks of different sizes, or none.
TEST(HoldOut, EqualDocumentsOfTwoEntriesAreCutAlike) {
  size_t num_cut = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Texts texts = random_texts(seed);
    std::mt19937_64 random(seed);
    for (int32_t source = 7; source < 9; ++source) {  // entries of parts of the others
      const size_t size = texts.documents.size();
      for (size_t i = 0; i < size; ++i)
        if (random() % 4 == 0) texts.add(texts.documents[i], source);
    }
    const HoldOut held_out = decide(texts, 0.02);
    std::map<std::string, std::vector<std::pair<size_t, bool>>> sides;
    for (size_t i = 0; i < texts.documents.size(); ++i) {
      std::vector<std::pair<size_t, bool>> cut;
      for (const TextPart& part : parts_of(held_out, texts, i))
        cut.emplace_back(part.text.size(), part.held_out);
      const auto [first, is_new] = sides.emplace(texts.documents[i], cut);
      EXPECT_EQ(first->second, cut) << seed;
      if (!is_new && cut.size() > 1) ++num_cut;
    }
  }
  EXPECT_GT(num_cut, 100U);
}

TEST(HoldOut, AtLeastOneBlockWhereThereAreTwo) {
  Texts two;
  two.add("one");
  EXPECT_FALSE(decide(two, 0.01).holds_out_any()) << "a single block is trained on";
  two.add("one");
  EXPECT_FALSE(decide(two, 0.01).holds_out_any()) << "the same text";
  two.add("");
  EXPECT_FALSE(decide(two, 0.01).holds_out_any()) << "nothing is no text";
  two.add("two");
  for (const double fraction : {1e-15, 0.01, 0.5, 0.999999}) {
    const HoldOut held_out = decide(two, fraction);
    EXPECT_TRUE(held_out.holds_out_any());
    EXPECT_LT(bytes_held_out(held_out, two), two.size());
  }
}

// One file that holds the same text twice, and other text before, between and behind.
TEST(HoldOut, CopiesInOneDocumentAreOnOneSide) {
  std::mt19937_64 random(8);
  for (const bool has_lines : {true, false}) {
    const auto text_of = [&](size_t size) {
      std::string text;
      while (text.size() < size) text += str("piece ", random(), has_lines ? "\n" : " ");
      return text;
    };
    const std::string copied = text_of(400'000);
    Texts texts;
    texts.add(text_of(12'345) + copied + text_of(77) + copied + text_of(5000));
    const HoldOut held_out = decide(texts, 0.05);
    std::string trained_on;
    std::vector<std::string_view> out;
    for (const TextPart& part : parts_of(held_out, texts, 0)) {
      if (part.held_out) {
        out.push_back(part.text);
      } else {
        trained_on.append(part.text).append("|");
      }
    }
    // In windows of 200 bytes.
    int64_t windows = 0;
    int64_t leaked = 0;
    for (const std::string_view part : out) {
      for (size_t at = 0; at + 200 <= part.size(); at += 200) {
        ++windows;
        if (trained_on.find(part.substr(at, 200)) != std::string::npos) ++leaked;
      }
    }
    EXPECT_GT(windows, 150) << has_lines;
    // Blocks at the ends of a copy may hold other text too, and then are held out alone.
    EXPECT_LT(leaked, windows / 20) << has_lines;
  }
}

}  // namespace
}  // namespace lmtrain
