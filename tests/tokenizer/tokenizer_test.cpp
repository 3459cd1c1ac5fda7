#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/utf8.h"
#include "config/recipe.h"
#include "prepare/folder.h"
#include "tokenizer/model_bytes.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const fs::path kReference = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/tokenizer";
const fs::path kSample = fs::path(LMTRAIN_SOURCE_DIR) / "data/sample";

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<std::string> sample_texts() {
  std::vector<std::string> texts;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(kSample)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) texts.push_back(read_file(path));
  return texts;
}

std::vector<TokenizerFile> train(const TokenizerTrainConfig& config,
                                 const std::vector<std::string>& texts) {
  TokenizerConfig tokenizer;
  tokenizer.train = config;
  return train_tokenizer(tokenizer, [&](const TextSink& add) {
    for (const std::string& text : texts) add(text);
  });
}

TokenizerTrainConfig small(const std::string& type = "bpe") {
  TokenizerTrainConfig config;
  config.vocab_size = 600;
  config.type = value_named<TokenizerType>(type).value();
  return config;
}

// Random strings over everything that has ever been trouble: spaces, newlines, tabs, controls,
// combining marks, emoji, and code points of the whole range, in runs.
std::string random_text(std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {" ",
                                                   "  ",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "\t\t",
                                                   std::string(1, '\0'),
                                                   "\x01",
                                                   "\x7F",
                                                   "a",
                                                   "def",
                                                   "_",
                                                   "(",
                                                   "):",
                                                   "0",
                                                   "42",
                                                   "\xC2\xA0",
                                                   "\xE3\x80\x80",
                                                   "e\xCC\x81",
                                                   "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9",
                                                   "\xEF\xBB\xBF",
                                                   "\xE2\x96\x85",
                                                   "\xE6\x9D\xB1\xE4\xBA\xAC",
                                                   "<s>",
                                                   "</s>",
                                                   "<unk>",
                                                   "<0x41>",
                                                   "\xEF\xBF\xBD",
                                                   "\xE2\x80\xA8",
                                                   "\x0B",
                                                   "\x0C"};
  std::string text;
  const auto length = random() % 40;
  for (size_t i = 0; i < length; ++i) {
    if (random() % 4 != 0) {
      text += kPieces[random() % kPieces.size()];
      continue;
    }
    auto c = static_cast<char32_t>(random() % 0x110000);
    if ((c >= 0xD800 && c <= 0xDFFF) || c == 0x2581 || c < 0x800) c = 0x4E00;
    const auto put = [&](char32_t byte) {
      text.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
    };
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
  }
  return text;
}

class TrainedTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedTokenizer, IsLossless) {
  const std::vector<std::string> texts = sample_texts();
  const Tokenizer tokenizer(train(small(GetParam()), texts), "trained");
  EXPECT_EQ(tokenizer.vocab_size(), 600);
  const bool is_byte_bpe = GetParam() == std::string("byte_bpe");
  EXPECT_EQ(tokenizer.unk_id(), is_byte_bpe ? -1 : 0);
  EXPECT_EQ(tokenizer.bos_id(), is_byte_bpe ? 0 : 1);
  EXPECT_EQ(tokenizer.eos_id(), is_byte_bpe ? 1 : 2);
  EXPECT_EQ(tokenizer.pad_id(), -1);
  size_t num_tokens = 0;
  size_t num_bytes = 0;
  for (const std::string& text : texts) {
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    num_tokens += ids.size();
    num_bytes += text.size();
  }
  EXPECT_LT(num_tokens, num_bytes * 2 / 3) << "it compresses";
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_text(random);
    const Ids ids = tokenizer.encode(text);
    ASSERT_EQ(tokenizer.decode(ids), text);
    for (const int32_t special : {tokenizer.unk_id(), tokenizer.bos_id(), tokenizer.eos_id()})
      ASSERT_EQ(std::count(ids.begin(), ids.end(), special), 0);
  }
}

TEST_P(TrainedTokenizer, SameTextsGiveTheSameBytes) {
  const std::vector<std::string> texts = sample_texts();
  const std::vector<TokenizerFile> first = train(small(GetParam()), texts);
  const std::vector<std::string> clutter(1000, std::string(100, 'x'));  // another state of the heap
  EXPECT_EQ(train(small(GetParam()), texts), first);
}

TEST_P(TrainedTokenizer, AVocabularyTooLargeOrTooSmallNamesTheOneThatFits) {
  TokenizerTrainConfig config = small(GetParam());
  config.vocab_size = 50'000;
  const std::vector<std::string> texts = {"A short text, too short for much.\n", "Another one.\n"};
  const std::string large = error_of(ErrorKind::kData, [&] { train(config, texts); });
  expect_contains(large, "tokenizer.train.vocab_size");
  expect_contains(large, "50000");
  config.vocab_size = std::stoll(large.substr(large.find("at most ") + 8));
  EXPECT_EQ(Tokenizer(train(config, texts), "trained").vocab_size(), config.vocab_size)
      << "the named size works";
  ++*config.vocab_size;
  error_of(ErrorKind::kData, [&] { train(config, texts); });
  config.vocab_size = config.type == TokenizerType::kByteBpe ? 200 : 261;
  const std::string tiny = error_of(ErrorKind::kData, [&] { train(config, texts); });
  expect_contains(tiny, "tokenizer.train.vocab_size");
  config.vocab_size = std::stoll(tiny.substr(tiny.find("at least ") + 9));
  EXPECT_EQ(Tokenizer(train(config, texts), "trained").vocab_size(), config.vocab_size)
      << "the named size works";
  --*config.vocab_size;
  error_of(ErrorKind::kData, [&] { train(config, texts); });
}

// A chosen size never fails: little text, many characters, and text for more pieces.
TEST_P(TrainedTokenizer, ASizeThatIsNotGivenIsChosenByTheText) {
  TokenizerTrainConfig config = small(GetParam());
  config.vocab_size.reset();
  const auto trained = [&](const std::vector<std::string>& texts) {
    const Tokenizer tokenizer(train(config, texts), "trained");
    for (const std::string& text : texts) {
      if (!is_utf8(text)) continue;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
    return tokenizer.vocab_size();
  };
  for (const char* text : {"a", "\n", "A short text, too short for much.\n"}) {
    EXPECT_GT(trained({text}), 256) << text;
    EXPECT_LT(trained({text}), 512) << text;
  }
  std::string characters;  // 4,096 of three bytes each
  for (int c = 0; c < 4096; ++c) {
    for (int twice = 0; twice < 2; ++twice)
      characters += {static_cast<char>(0xE4 + (c >> 12)), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
                     static_cast<char>(0x80 | (c & 0x3F))};
  }
  const int64_t least = config.type == TokenizerType::kByteBpe ? 500 : 4000;
  EXPECT_GT(trained({characters}), least);
  EXPECT_GT(trained({"bad \xFF byte, cut character \xE2\x82"}), 256);
  std::mt19937_64 random(3);
  std::string words;
  while (words.size() < 140'000) {
    for (uint64_t letters = 3 + random() % 5; letters > 0; --letters)
      words += static_cast<char>('a' + random() % 26);
    words += ' ';
  }
  EXPECT_EQ(trained({words}), vocab_size_for(static_cast<double>(words.size())));
}

TEST_P(TrainedTokenizer, NoText) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>(), std::vector<std::string>{"", ""}}) {
    expect_contains(error_of(ErrorKind::kData, [&] { train(small(GetParam()), texts); }),
                    "no text");
  }
}

TEST_P(TrainedTokenizer, HardTexts) {
  std::vector<std::string> texts = sample_texts();
  texts.push_back(std::string(300'000, 'a'));  // no space, no newline
  texts.push_back(std::string(100'000, ' '));  // nothing else
  texts.push_back(std::string("nul\0nul\0nul", 11));
  texts.push_back("broken \xFF\xFE\xC0 bytes \xE2\x82");
  texts.push_back(
      "\xE2\x96\x81 and \xE2\x96\x85");  // what sentencepiece uses for space and unknown
  const Tokenizer tokenizer(train(small(GetParam()), texts), "trained");
  for (const char* text : {"", "\t", "\xE2\x96\x85", "aaaaaaaaaa"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFF"
                                              "b")),
            "a\xEF\xBF\xBD"
            "b");
}

INSTANTIATE_TEST_SUITE_P(Types, TrainedTokenizer, ::testing::Values("bpe", "unigram", "byte_bpe"));

// Several batches for each thread, and a text that is larger than a batch.
TEST(TrainTokenizer, TheNumberOfThreadsChangesNoByte) {
  std::mt19937_64 random(8);
  std::vector<std::string> texts(1, "first text\n");
  for (int i = 0; i < 60; ++i) {
    std::string& text = texts.emplace_back();
    for (size_t size = i == 7 ? 2'000'000 : 50'000; text.size() < size;)
      text += std::string(1 + random() % 3, static_cast<char>('a' + random() % 20)) +
              (random() % 4 == 0 ? " " : "");
  }
  for (const char* type : {"bpe", "byte_bpe"}) {
    TokenizerConfig config;
    config.train = small(type);
    const auto feed = [&](const TextSink& add) {
      for (const std::string& text : texts) add(text);
    };
    const std::vector<TokenizerFile> expected = train_tokenizer(config, feed);
    for (const int num_threads : {2, 5, 100}) {
      const std::vector<TokenizerFile> files = train_tokenizer(config, feed, num_threads);
      ASSERT_EQ(files.size(), expected.size());
      for (size_t i = 0; i < files.size(); ++i)
        EXPECT_EQ(files[i].bytes, expected[i].bytes) << type << ", " << num_threads << " threads";
    }
  }
}

TEST(TrainTokenizer, AnErrorOfTheTextsEndsTheThreads) {
  TokenizerConfig config;
  config.train = small("byte_bpe");
  const auto feed = [](const TextSink& add) {
    for (int i = 0; i < 5; ++i) add(std::string(1 << 20, 'a') + "\n");
    throw Error(ErrorKind::kIo, "the disk is gone");
  };
  EXPECT_THROW(train_tokenizer(config, feed, 3), Error);
}

TEST(Tokenizer, GivesTheIdsOfTheReference) {
  const Tokenizer tokenizer = Tokenizer::load(kReference / "tokenizer.model");
  const Json golden = Json::parse(read_file(kReference / "golden.json"));
  EXPECT_EQ(tokenizer.vocab_size(), golden.at("vocab_size").get<int64_t>());
  EXPECT_EQ(tokenizer.bos_id(), golden.at("bos").get<int>());
  EXPECT_EQ(tokenizer.eos_id(), golden.at("eos").get<int>());
  EXPECT_EQ(tokenizer.unk_id(), golden.at("unk").get<int>());
  EXPECT_EQ(tokenizer.pad_id(), golden.at("pad").get<int>());
  int compared = 0;
  for (const char* list : {"texts", "special_texts"}) {
    for (const Json& entry : golden.at(list)) {
      const std::string text = from_hex(entry.at("hex"));
      const Ids ids = tokenizer.encode(text);
      EXPECT_EQ(ids, entry.at("ids").get<Ids>()) << text;
      EXPECT_EQ(tokenizer.decode(ids) == text, entry.at("lossless").get<bool>()) << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

TEST(Tokenizer, LongTextsEncodedInPartsGiveTheIdsOfTheWhole) {
  sentencepiece::SentencePieceProcessor whole;
  const std::string mark = "\xE2\x96\x81";
  std::mt19937_64 random(3);
  // The ids of a unigram model are not those of the library that is linked (unigram_encoder_test).
  for (const std::string& bytes :
       {read_file(kReference / "tokenizer.model"), train(small(), sample_texts()).front().bytes}) {
    ASSERT_TRUE(whole.LoadFromSerializedProto(bytes).ok());
    const Tokenizer tokenizer(bytes, "model");
    std::vector<std::string> texts = {std::string(10'000, ' '), std::string(10'000, 'a'), ""};
    for (const std::string& text : sample_texts()) texts.back() += text;
    for (int i = 0; i < 30; ++i) {
      texts.emplace_back();
      while (texts.back().size() < 9000)
        texts.back() += random_text(random) + (random() % 20 == 0 ? mark + " \xFF \xE2 " : "");
    }
    for (const std::string& text : texts) {
      Ids expected;
      ASSERT_TRUE(whole.Encode(text, &expected).ok());
      ASSERT_EQ(tokenizer.encode(text), expected);
    }
  }
}

TEST(Tokenizer, EncodeDocumentAddsWhatIsAskedFor) {
  const Tokenizer tokenizer = Tokenizer::load(kReference / "tokenizer.model");
  const Ids plain = tokenizer.encode("Hello world");
  const auto with = [&](bool bos, bool eos) {
    Ids ids = plain;
    if (bos) ids.insert(ids.begin(), 1);
    if (eos) ids.push_back(2);
    return ids;
  };
  for (const bool bos : {false, true}) {
    for (const bool eos : {false, true})
      EXPECT_EQ(tokenizer.encode_document("Hello world", bos, eos), with(bos, eos));
  }
  EXPECT_EQ(tokenizer.encode_document("", true, true), Ids({1, 2}));
  EXPECT_EQ(tokenizer.encode_document("", false, false), Ids());
}

TEST(Tokenizer, AddsNoBosThatTheModelLacks) {
  SentencePieceModel model;
  model.type = ModelType::kBpe;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown}, {"a", -1, PieceType::kNormal}};
  EXPECT_FALSE(Tokenizer(model_bytes(model), "x.model").adds_bos());
  model.pieces.push_back({"<s>", 0, PieceType::kControl});
  EXPECT_TRUE(Tokenizer(model_bytes(model), "x.model").adds_bos());
}

TEST(Tokenizer, WhatIsNoModelIsADataErrorThatNamesIt) {
  const Folder folder;
  for (const std::string& bytes :
       {std::string(), std::string("not a model"), std::string(1000, '\xFF')}) {
    const fs::path path = folder.write("bad.model", bytes);
    const std::string message = error_of(ErrorKind::kData, [&] { Tokenizer::load(path); });
    expect_contains(message, path.native());
  }
  const std::string model = read_file(kReference / "tokenizer.model");
  for (size_t size = 1; size < model.size(); size += 97) {
    try {
      const Tokenizer tokenizer(model.substr(0, size), "truncated");
      tokenizer.encode("a cut that leaves a shorter list of pieces is a model too");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
  error_of(ErrorKind::kIo, [&] { Tokenizer::load(folder / "missing.model"); });
}

// One that is opened again is shared, unless its files have changed since.
TEST(Tokenizer, LoadReadsWhatTheFilesSayNow) {
  const TemporaryFolder folder;
  const fs::path model = folder / "tokenizer.model";
  const std::string reference = read_file(kReference / "tokenizer.model");
  write_file_atomic(model, reference);
  const Tokenizer first = Tokenizer::load(model);
  const Tokenizer again = Tokenizer::load(model);
  EXPECT_EQ(&first.why_slow(), &again.why_slow()) << "of one model";
  EXPECT_TRUE(first.adds_bos());
  const fs::path beside = folder / "tokenizer_config.json";
  write_file_atomic(beside, R"({"add_bos_token": false})");
  EXPECT_FALSE(Tokenizer::load(model).adds_bos());
  fs::remove(beside);
  EXPECT_TRUE(Tokenizer::load(model).adds_bos());
  write_file_atomic(model, "no model");
  error_of(ErrorKind::kData, [&] { Tokenizer::load(model); });
  write_file_atomic(model, reference);
  EXPECT_EQ(Tokenizer::load(model).encode("a word"), first.encode("a word"));
}

TEST(Tokenizer, DecodeRefusesIdsOutsideTheVocabulary) {
  const Tokenizer tokenizer = Tokenizer::load(kReference / "tokenizer.model");
  error_of(ErrorKind::kInternal, [&] { static_cast<void>(tokenizer.decode({384})); });
  error_of(ErrorKind::kInternal, [&] { static_cast<void>(tokenizer.decode({-1})); });
}

TEST(Tokenizer, ConfigForTransformers) {
  const Tokenizer tokenizer = Tokenizer::load(kReference / "tokenizer.model");
  const Json expected = Json::parse(R"({
    "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
    "add_bos_token": true, "add_eos_token": false, "add_prefix_space": false, "legacy": false,
    "clean_up_tokenization_spaces": false, "split_special_tokens": true, "model_max_length": 1024})");
  EXPECT_EQ(Json::parse(tokenizer.hf_tokenizer_config(true, 1024)), expected);
  // transformers 5 would read a unigram model as BPE if the class were named.
  const Tokenizer unigram(train(small("unigram"), sample_texts()), "trained");
  EXPECT_FALSE(Json::parse(unigram.hf_tokenizer_config(true, 1024)).contains("tokenizer_class"));
}

}  // namespace
}  // namespace lmtrain
