// Ids must be those of SentencePieceProcessor::Encode for the whole text, whatever the vocabulary.
#include "tokenizer/bpe_encoder.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <set>
#include <unordered_map>

#include "base/file.h"
#include "prepare/folder.h"
#include "tokenizer/hard_text.h"
#include "tokenizer/model_bytes.h"
#include "tokenizer/sentences.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

const fs::path kReference = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/tokenizer";
const fs::path kSample = fs::path(LMTRAIN_SOURCE_DIR) / "data/sample";

// sentencepiece and ours, side by side.
class Pair {
 public:
  explicit Pair(const std::string& bytes) : model_(read_model(bytes)), encoder_(model_) {
    const auto status = library_.LoadFromSerializedProto(bytes);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Ids expected(std::string_view text) const {
    Ids ids;
    EXPECT_TRUE(library_.Encode(text, &ids).ok());
    return ids;
  }
  Ids ours(std::string_view text) {
    Ids ids;
    encoder_.encode(text, scratch_, ids);
    return ids;
  }
  std::optional<std::string> why_not() const { return why_not_exact(model_); }

 private:
  SentencePieceModel model_;
  sentencepiece::SentencePieceProcessor library_;
  BpeEncoder encoder_;
  BpeEncoder::Scratch scratch_;
};

// A vocabulary over few characters, so that joins compete, overlap and tie.
SentencePieceModel random_model(Random& random) {
  static const std::vector<std::string> kCharacters = {"a",
                                                       "b",
                                                       "t",
                                                       "h",
                                                       "e",
                                                       kMark,
                                                       "\n",
                                                       "\xC3\xA9",
                                                       "\xE6\x9D\xB1",
                                                       "\xF0\x9F\x98\x80",
                                                       "\xCC\x81",
                                                       "\xEF\xBF\xBD",
                                                       "<",
                                                       ">",
                                                       "s"};
  const auto chance = [&](unsigned one_in) { return random() % one_in == 0; };
  SentencePieceModel model;
  model.type = ModelType::kBpe;
  model.byte_fallback = chance(2);
  model.adds_prefix = chance(2);
  model.removes_spaces = chance(3);
  std::set<std::string> taken;
  const auto add = [&](const std::string& text, PieceType type, float score) {
    if (taken.insert(text).second) model.pieces.push_back({text, score, type});
  };
  add("<unk>", PieceType::kUnknown, 0);
  add("<s>", PieceType::kControl, 0);
  for (unsigned byte = 0; byte < 256 && model.byte_fallback; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    add(name.data(), PieceType::kByte, 0);
  }
  const size_t num_characters = 3 + random() % (kCharacters.size() - 2);
  const auto random_piece = [&](size_t longest) {
    std::string text;
    for (size_t i = 1 + random() % longest; i > 0; --i)
      text += kCharacters[random() % num_characters];
    return text;
  };
  const unsigned num_scores = chance(2) ? 4 : 1000;  // few: many ties
  for (size_t i = 5 + random() % 150; i > 0; --i) {
    // Mostly pieces that can be built from others.
    std::string text = random_piece(chance(4) ? 6 : 2);
    const ModelPiece& other = model.pieces[random() % model.pieces.size()];
    if (chance(2) && other.type == PieceType::kNormal && other.text.size() < 40) text += other.text;
    add(text, PieceType::kNormal, -static_cast<float>(random() % num_scores));
  }
  if (chance(3)) {
    for (size_t i = 1 + random() % 6; i > 0; --i) {
      std::string text = random_piece(3);
      if (chance(4)) text += " b";
      add(text, PieceType::kUserDefined, 0);
    }
    add("<sep>", PieceType::kUserDefined, 0);
  }
  return model;
}

TEST(BpeEncoder, ManySmallVocabularies) {
  Random random(1);
  int exact = 0;
  for (int i = 0; i < 400; ++i) {
    const SentencePieceModel model = random_model(random);
    Pair pair(model_bytes(model));
    if (pair.why_not()) continue;
    ++exact;
    for (int j = 0; j < 60; ++j) {
      std::string text = hard_text(random, 30);
      // Much of what the vocabulary knows.
      for (size_t k = random() % 40; k > 0; --k) {
        const std::string& piece = model.pieces[random() % model.pieces.size()].text;
        text.insert(random() % (text.size() + 1), piece);
      }
      ASSERT_EQ(pair.ours(text), pair.expected(text)) << "vocabulary " << i << ": " << hex(text);
    }
  }
  EXPECT_GT(exact, 300);
}

std::vector<std::string> sample_texts() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(kSample)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  texts.reserve(paths.size());
  for (const fs::path& path : paths) texts.push_back(read_file(path));
  return texts;
}

std::string train(int64_t vocab_size) {
  TokenizerConfig config;
  config.train.vocab_size = vocab_size;
  const std::vector<TokenizerFile> files = train_tokenizer(config, [](const TextSink& add) {
    for (const std::string& text : sample_texts()) add(text);
  });
  return files.front().bytes;
}

// As Llama 2's: a space before the first word; <unk>, <s>, </s>, bytes, joins, characters.
SentencePieceModel llama_class() {
  SentencePieceModel model = read_model(train(1500));
  model.adds_prefix = true;
  return model;
}

void expect_same_ids(const SentencePieceModel& model, size_t texts = 300) {
  Pair pair(model_bytes(model));
  ASSERT_FALSE(pair.why_not()) << *pair.why_not();
  for (const std::string& text : sample_texts()) ASSERT_EQ(pair.ours(text), pair.expected(text));
  Random random(2);
  for (size_t i = 0; i < texts; ++i) {
    const std::string text = hard_text(random, 60);
    ASSERT_EQ(pair.ours(text), pair.expected(text)) << hex(text);
  }
  for (const std::string& part : hard_parts())
    ASSERT_EQ(pair.ours(part), pair.expected(part)) << hex(part);
  ASSERT_EQ(pair.ours(""), pair.expected(""));
}

TEST(BpeEncoder, LlamaClassWithAndWithoutPrefix) {
  SentencePieceModel model = llama_class();
  expect_same_ids(model);
  model.removes_spaces = true;
  expect_same_ids(model);
  model.adds_prefix = false;
  expect_same_ids(model);
  model.removes_spaces = false;
  expect_same_ids(model);
}

TEST(BpeEncoder, WithoutBytesARunOfUnknownIsOne) {
  SentencePieceModel model = llama_class();
  model.byte_fallback = false;
  std::erase_if(model.pieces, [](const ModelPiece& piece) {
    return piece.type == PieceType::kByte || piece.text == kMark || piece.text == "e";
  });
  expect_same_ids(model);
}

TEST(BpeEncoder, UserDefinedSymbols) {
  SentencePieceModel model = llama_class();
  for (const char* text : {"<sep>", "def", "\xF0\x9F\x98\x80", "the", "a b", "zz top"})
    if (std::none_of(model.pieces.begin(), model.pieces.end(),
                     [&](const ModelPiece& piece) { return piece.text == text; }))
      model.pieces.push_back({text, 0, PieceType::kUserDefined});
  model.pieces.push_back({"<x" + kMark + "y>", 0, PieceType::kUserDefined});
  model.pieces.push_back({"\n" + kMark, 0, PieceType::kUserDefined});
  expect_same_ids(model);
  Pair pair(model_bytes(model));
  const std::string text = "so <x y> a <x\ny> <x  y>\n  a<x y>b";
  EXPECT_EQ(pair.ours(text), pair.expected(text));
}

// Where a piece reaches over a space, cutting there would be wrong: the table sees it.
TEST(BpeEncoder, PiecesThatReachOverSpaces) {
  SentencePieceModel model = llama_class();
  // The highest score, so that it is joined wherever it can be.
  model.pieces.push_back({"e" + kMark, 1, PieceType::kNormal});
  model.pieces.push_back({"e" + kMark + "t", 2, PieceType::kNormal});
  expect_same_ids(model);
  Pair pair(model_bytes(model));
  ASSERT_FALSE(pair.why_not());
  const std::string text = "we take the tree";
  EXPECT_EQ(pair.ours(text), pair.expected(text));
  // Without looking at the pieces, every space would be a place to cut, and the ids differ.
  SentencePieceModel plain = model;
  plain.adds_prefix = false;
  Pair parts(model_bytes(plain));
  Ids cut;
  for (const char* word : {"we", " take", " the", " tree"}) {
    for (const int32_t id : parts.ours(word)) cut.push_back(id);
  }
  EXPECT_NE(cut, parts.expected(text));
  EXPECT_EQ(parts.ours(text), parts.expected(text));
}

TEST(BpeEncoder, LongTextsWithoutAPlaceToCut) {
  Pair pair(model_bytes(llama_class()));
  Random random(4);
  std::string letters;
  while (letters.size() < 1'000'000) letters.push_back(static_cast<char>('a' + random() % 4));
  for (const std::string& text :
       {std::string(300'000, 'a'), std::string(300'000, ' '), letters.substr(0, 200'000)}) {
    ASSERT_EQ(pair.ours(text), pair.expected(text));
  }
  const auto seconds = [&](std::string_view text) {  // of this thread
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double start = now();
      pair.ours(text);
      best = std::min(best, now() - start);
    }
    return best;
  };
  const std::string_view all = letters;
  EXPECT_LT(seconds(all), 100 * seconds(all.substr(0, 100'000))) << "not quadratic, which is 100";
}

// Each model for which our encoder is not exact is seen, and would give other ids.
TEST(BpeEncoder, WhereItIsNotExactTheLibraryEncodes) {
  const std::string text = "The tree \xEF\xAC\x81  the end  we see";
  const auto expect_seen = [&](const std::string& bytes, const std::string& reason) {
    Pair pair(bytes);
    ASSERT_TRUE(pair.why_not()) << reason;
    expect_contains(*pair.why_not(), reason);
    const Tokenizer tokenizer(bytes, "model");
    EXPECT_EQ(tokenizer.why_slow(), *pair.why_not());
    EXPECT_EQ(tokenizer.encode(text), pair.expected(text));
    EXPECT_NE(pair.ours(text), pair.expected(text)) << reason << ": a check that is not needed";
  };
  SentencePieceModel model = llama_class();
  model.escapes_spaces = false;
  expect_seen(model_bytes(model), "spaces as they are");
  model = llama_class();
  for (ModelPiece& piece : model.pieces) {
    if (piece.type == PieceType::kNormal && piece.text.size() > 4) piece.type = PieceType::kUnused;
  }
  expect_seen(model_bytes(model), "unused");
}

// A unigram model has an encoder of its own.
TEST(BpeEncoder, AUnigramModelIsNoBpe) {
  SentencePieceModel model = llama_class();
  model.type = ModelType::kUnigram;
  expect_contains(*why_not_exact(model), "not a BPE");
  EXPECT_TRUE(Tokenizer(model_bytes(model), "model").why_slow().empty());
}

// What the normal form of the text decides.
TEST(BpeEncoder, SpacesThatEndWordsAndReplacedCharactersAreExact) {
  const std::string text = "The tree \xEF\xAC\x81  the end \xEF\xBC\xA1 we see\xE3\x80\x80";
  SentencePieceModel model = llama_class();
  model.space_is_suffix = true;
  Pair suffix(model_bytes(model));
  EXPECT_FALSE(suffix.why_not());
  EXPECT_EQ(suffix.ours(text), suffix.expected(text));
  Sentences lines(sample_texts());
  std::string trained;
  ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train(
                  std::unordered_map<std::string, std::string>{
                      {"model_type", "bpe"}, {"vocab_size", "400"}, {"minloglevel", "2"}},
                  &lines, &trained)
                  .ok());
  Pair replaced(trained);
  EXPECT_FALSE(replaced.why_not());
  EXPECT_EQ(replaced.ours(text), replaced.expected(text));
  for (const std::string& sample : sample_texts())
    EXPECT_EQ(replaced.ours(sample), replaced.expected(sample));
}

TEST(BpeEncoder, ModelsOfUnknownFormAreLeftToTheLibrary) {
  SentencePieceModel model = llama_class();
  EXPECT_TRUE(Tokenizer(model_bytes(model), "model").why_slow().empty());
  model.pieces.push_back({std::string(300, 'x'), 0, PieceType::kNormal});
  expect_contains(Tokenizer(model_bytes(model), "model").why_slow(), "300 bytes");
  model.pieces.back() = {"%", 0, PieceType::kControl};
  expect_contains(Tokenizer(model_bytes(model), "model").why_slow(), "hides");
  model = llama_class();
  model.removes_spaces = true;
  model.pieces.push_back({"x  y", 0, PieceType::kUserDefined});
  expect_contains(Tokenizer(model_bytes(model), "model").why_slow(), "user-defined");
}

TEST(BpeEncoder, ACacheThatOverflowsStaysExact) {
  Pair pair(model_bytes(llama_class()));
  Random random(5);
  // More words than the cache holds, then old ones again.
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    while (text.size() < 40'000) {
      for (size_t k = 2 + random() % 6; k > 0; --k)
        text.push_back(static_cast<char>('a' + random() % 26));
      text.push_back(' ');
    }
    texts.push_back(text);
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (const std::string& text : texts) ASSERT_EQ(pair.ours(text), pair.expected(text));
  }
}

}  // namespace
}  // namespace lmtrain
