#include "tokenizer/token_line.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace lmtrain {
namespace {

// The words of a line, its tokens as digits.
std::string words_of(const TokenLine& line) {
  std::string words;
  for (uint32_t slot = 1; slot < line.size();) {
    const uint32_t token = line.token_at(slot);
    words += token == TokenLine::kNone ? ' ' : static_cast<char>('0' + token);
    slot += token == TokenLine::kNone ? 1 : line.num_characters(token);
  }
  return words;
}

// "aabab" twice and "b"; "a" is 0, "b" 1.
TokenLine example() {
  TokenLine line(9);
  line.add_kind(1);
  line.add_kind(1);
  line.begin_weight(0);
  line.append_gap();
  line.begin_weight(2);
  for (const uint32_t token : {0U, 0U, 1U, 0U, 1U}) line.append(token);
  line.append_gap();
  line.begin_weight(1);
  line.append(1);
  line.append_gap();
  return line;
}

TEST(TokenLine, JoinsTellOfTheirNeighbours) {
  TokenLine line = example();
  std::string told;
  const auto tell = [&](char sign, uint32_t left, uint32_t right) {
    told += sign;
    told += static_cast<char>('0' + line.token_at(left));
    told += static_cast<char>('0' + line.token_at(right));
    told += ' ';
  };
  const auto join = [&](std::vector<uint32_t> slots, uint32_t token) {
    line.join(
        slots, token, [&](uint32_t left, uint32_t right) { tell('-', left, right); },
        [&](uint32_t left, uint32_t right, bool /*is_last*/) { tell('+', left, right); });
  };
  join({2, 4}, line.add_kind(2));  // "ab" is 2
  EXPECT_EQ(words_of(line), "022 1 ");
  EXPECT_EQ(told, "-00 -10 +02 +22 ");
  told.clear();
  join({1, 2, 4}, line.add_kind(3));  // "aab" is 3; a place that is gone changes nothing
  EXPECT_EQ(words_of(line), "32 1 ");
  EXPECT_EQ(told, "-22 +32 ");
  EXPECT_EQ(line.after(1), 4U);
  EXPECT_EQ(line.before(4), 1U);
  EXPECT_EQ(line.before(1), TokenLine::kNone);
  EXPECT_EQ(line.after(4), TokenLine::kNone);
  EXPECT_TRUE(line.has_pair(1, 5));
  EXPECT_FALSE(line.has_pair(2, 3)) << "inside a token";
}

TEST(TokenLine, WordsHaveTheirWeights) {
  TokenLine line = example();
  for (const uint32_t slot : {1U, 7U, 5U, 1U, 7U})
    EXPECT_EQ(line.weight_at(slot), slot == 7 ? 1 : 2) << slot;
}

TEST(TokenLine, MoreSlotsThanPositionsHoldAreRefused) {
  EXPECT_THROW(TokenLine(uint64_t{1} << 31), Error);
}

}  // namespace
}  // namespace lmtrain
