#include "prepare/content_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

// By the definition, position by position.
std::vector<uint64_t> cuts_by_definition(const std::vector<uint64_t>& keys, uint64_t reach) {
  std::vector<uint64_t> cuts;
  const uint64_t size = keys.size();
  for (uint64_t at = reach; at + reach <= size && at < size; ++at) {
    bool is_least = true;
    for (uint64_t other = at - std::min(at, reach); other <= at + reach && other < size; ++other)
      is_least &= other < at ? keys[other] > keys[at] : keys[other] >= keys[at];
    if (is_least) cuts.push_back(at);
  }
  return cuts;
}

TEST(ContentCuts, AreThoseOfTheDefinition) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint64_t reach = 1 + random() % 20;
    const uint64_t values = random() % 2 == 0 ? 5 : 1'000'000;  // with and without ties
    std::vector<uint64_t> keys(1 + random() % 300);
    for (uint64_t& key : keys) key = random() % values;
    ContentCuts cuts(reach, keys.size());
    for (uint64_t at = 0; at < keys.size(); ++at) cuts.add(at, keys[at]);
    EXPECT_EQ(cuts.finish(), cuts_by_definition(keys, reach)) << round;
  }
}

TEST(ContentKey, IsOfTheLastBytesAlone) {
  const std::string tail = "01234567890123456789012345678901";
  ASSERT_EQ(tail.size(), ContentCuts::kWindowBytes);
  EXPECT_EQ(content_key(tail), content_key("other text before" + tail));
  EXPECT_NE(content_key(tail), content_key("x" + tail.substr(1)));
  EXPECT_NE(content_key(""), content_key(std::string(1, '\0')));
}

std::string random_text(std::mt19937_64& random, size_t size, bool has_lines) {
  static const std::vector<std::string> kSnippets = {"a",
                                                     "word ",
                                                     "\n",
                                                     "\n\n",
                                                     "\r\n",
                                                     "\xC3\xA9",
                                                     "\xE2\x82\xAC",
                                                     "\xF0\x9F\x98\x80",
                                                     "\xFF",
                                                     "long line without an end "};
  std::string text;
  while (text.size() < size) {
    const std::string& snippet = kSnippets[random() % kSnippets.size()];
    if (has_lines || snippet.find('\n') == std::string::npos) text += snippet;
  }
  return text;
}

TEST(BlockEnds, BoundsAndCharacters) {
  EXPECT_EQ(block_ends("", 4), std::vector<size_t>({0}));
  EXPECT_EQ(block_ends("abcdef", 4), std::vector<size_t>({6})) << "up to one and a half";
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_text(random, random() % 5000, round % 3 > 0);
    const uint64_t block = 64 + random() % 500;
    size_t begin = 0;
    for (const size_t end : block_ends(text, block)) {
      EXPECT_LE(end - begin, block + block / 2);
      if (end < text.size()) {
        EXPECT_GE(end - begin, block / 2 - 4);
        // A character that is whole before the cut is whole behind it.
        char32_t code_point = 0;
        for (size_t back = 1; back < 4 && back <= end - begin; ++back) {
          const size_t size = decode_utf8(std::string_view(text).substr(end - back), code_point);
          EXPECT_LE(size, back) << "a character is cut";
        }
      }
      begin = end;
    }
    EXPECT_EQ(begin, text.size());
  }
}

TEST(BlockEnds, AreBehindNewlinesWhereThereAreSome) {
  std::mt19937_64 random(7);
  std::string text;
  while (text.size() < 100'000) text += str("line ", random(), "\n");
  for (const size_t end : block_ends(text, 1024)) EXPECT_EQ(text[end - 1], '\n');
}

// Every block between the first and the last content cut of a copy is one of the other copy too.
TEST(BlockEnds, CopiesAreCutAlike) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 60; ++round) {
    const uint64_t block = 128 + random() % 400;
    const bool has_lines = round % 2 == 0;
    const std::string copied = random_text(random, 40 * block, has_lines);
    const std::string before = random_text(random, random() % 3000, has_lines);
    const std::string other = random_text(random, random() % 3000, has_lines);
    const auto blocks_of = [&](const std::string& text) {
      std::set<std::string> blocks;
      size_t begin = 0;
      for (const size_t end : block_ends(text, block)) {
        blocks.insert(text.substr(begin, end - begin));
        begin = end;
      }
      return blocks;
    };
    const std::set<std::string> first = blocks_of(before + copied + other);
    const std::set<std::string> second = blocks_of(other + copied + before);
    size_t inside = 0;
    size_t missing = 0;
    for (const std::string& text : first) {
      const size_t at = copied.find(text);
      if (at == std::string::npos || at < 4 * block || at + text.size() + 4 * block > copied.size())
        continue;
      ++inside;
      missing += second.count(text) == 0 ? 1 : 0;
    }
    EXPECT_GT(inside, 15U) << round;
    EXPECT_EQ(missing, 0U) << round;
  }
}

// The same line again and again has no place that differs from the others.
TEST(BlockEnds, OfTextWithoutContent) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "same\n";
  size_t begin = 0;
  for (const size_t end : block_ends(text, 256)) {
    EXPECT_LE(end - begin, 384U);
    begin = end;
  }
}

}  // namespace
}  // namespace lmtrain
