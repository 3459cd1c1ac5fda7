#include "tokenizer/text_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "prepare/folder.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

// The tokenizers of the reference: sentencepiece, with and without pieces for all bytes, and
// byte-level BPE, and BPE whose runs of bytes are read as a whole.
std::vector<Tokenizer> tokenizers() {
  std::vector<Tokenizer> all;
  all.push_back(Tokenizer::load(kTokenizerModel));
  all.push_back(Tokenizer(reference_tokenizer_json("gpt2"), "gpt2.json"));
  all.push_back(Tokenizer(reference_tokenizer_json("llama3"), "llama3.json"));
  all.push_back(Tokenizer(reference_tokenizer_json("llama2"), "llama2.json"));
  return all;
}

// Checks that the parts of a stream join to what decoding the whole gives behind the prompt, and
// that none ends in half a character. Returns the parts.
std::vector<std::string> check_stream(const Tokenizer& tokenizer, const Ids& prompt,
                                      const Ids& tokens) {
  TextStream stream(tokenizer, prompt);
  std::vector<std::string> parts;
  std::string joined;
  for (const int32_t token : tokens) {
    parts.push_back(stream.add(token));
    EXPECT_TRUE(is_utf8(parts.back()));
    joined += parts.back();
  }
  joined += stream.finish();
  Ids whole = prompt;
  whole.insert(whole.end(), tokens.begin(), tokens.end());
  EXPECT_EQ(joined, tokenizer.decode(whole).substr(tokenizer.decode(prompt).size()));
  return parts;
}

TEST(TextStream, JoinsToTheWholeText) {
  const std::string text =
      "Ein  Satz mit Leerzeichen,\n\tTabs und \xE2\x82\xAC\xF0\x9F\x98\x80 und "
      "\xE6\xBC\xA2\xE5\xAD\x97, \xCE\xBA\xCF\x8C\xCF\x83\xCE\xBC\xCE\xB5. ";
  for (const Tokenizer& tokenizer : tokenizers()) {
    Ids ids;
    for (int i = 0; i < 12; ++i) {
      const Ids more = tokenizer.encode(text);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    ASSERT_GT(ids.size(), 200U);  // longer than what is decoded at once
    for (const std::ptrdiff_t least : {0, 1, 100}) {
      // A prompt is whole characters.
      auto middle = ids.begin() + least;
      while (tokenizer.decode({ids.begin(), middle}).ends_with("\xEF\xBF\xBD")) ++middle;
      check_stream(tokenizer, {ids.begin(), middle}, {middle, ids.end()});
    }
  }
}

// Ids as a model without training draws them: bytes that are no text, and special pieces.
TEST(TextStream, JoinsToTheWholeOfRandomIds) {
  std::mt19937_64 random(7);
  for (const Tokenizer& tokenizer : tokenizers()) {
    const auto ids = [&](size_t count, int64_t below) {
      Ids drawn;
      while (drawn.size() < count)
        drawn.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(below)));
      return drawn;
    };
    for (int i = 0; i < 40; ++i) {
      check_stream(tokenizer, {}, ids(150, tokenizer.vocab_size()));
      check_stream(tokenizer, {}, ids(150, 259));  // the pieces of bytes, mostly
    }
  }
}

TEST(TextStream, GivesACharacterOnceItIsComplete) {
  const Tokenizer tokenizer = Tokenizer::load(kTokenizerModel);
  const Ids euro = tokenizer.encode("\xE2\x82\xAC");
  ASSERT_EQ(euro.size(), 3U) << "a character of three pieces is wanted";
  EXPECT_EQ(check_stream(tokenizer, tokenizer.encode("a"), euro),
            (std::vector<std::string>{"", "", "\xE2\x82\xAC"}));
  // Bytes that no byte can complete any more are not waited for.
  const Ids bytes(6, euro[1]);
  const std::vector<std::string> parts = check_stream(tokenizer, {}, bytes);
  EXPECT_EQ(parts[2], "");
  EXPECT_EQ(parts[3], "\xEF\xBF\xBD");
}

TEST(TextStream, ASpaceAtTheFrontOfAPieceCountsBehindAnother) {
  for (const Tokenizer& tokenizer : tokenizers()) {
    const Ids ids = tokenizer.encode("of the");
    TextStream stream(tokenizer, {ids.begin(), ids.end() - 1});
    EXPECT_EQ(tokenizer.decode({ids.begin(), ids.end() - 1}) + stream.add(ids.back()), "of the");
  }
}

}  // namespace
}  // namespace lmtrain
