// The tokenizer that tokenizer.train.type "byte_bpe" trains, against the files that the library
// `tokenizers` saved for the same text.
#include "tokenizer/byte_bpe_files.h"

#include <algorithm>

#include "base/utf8.h"
#include "prepare/folder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

std::vector<std::string> sample_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(fs::path(LMTRAIN_SOURCE_DIR) / "data/sample"))
    texts.push_back(read_file(entry.path()));
  return texts;
}

std::vector<TokenizerFile> train(int64_t vocab_size, const std::vector<std::string>& texts,
                                 bool add_bos = true) {
  TokenizerConfig config;
  config.train.type = TokenizerType::kByteBpe;
  config.train.vocab_size = vocab_size;
  config.add_bos = add_bos;
  return train_tokenizer(config, [&](const TextSink& add) {
    for (const std::string& text : texts) add(text);
  });
}

TEST(ByteBpeFiles, AreTheBytesThatTheLibrarySaves) {
  EXPECT_EQ(train(800, sample_texts()).front().bytes, reference_tokenizer_json("byte_bpe"));
}

// In this text many pairs overlap, and many have equal counts.
TEST(ByteBpeFiles, AreTheBytesThatTheLibrarySavesForWordsOfFewLetters) {
  const std::string text = read_file(kTokenizerJsons / "few_letters.txt");
  EXPECT_EQ(train(600, {text}, /*add_bos=*/false).front().bytes,
            reference_tokenizer_json("few_letters"));
}

TEST(ByteBpeFiles, TheOrderOfTextsDoesNotMatter) {
  std::vector<std::string> texts = sample_texts();
  const std::vector<TokenizerFile> files = train(600, texts);
  std::reverse(texts.begin(), texts.end());
  EXPECT_EQ(train(600, texts), files);
}

TEST(ByteBpeFiles, NameBosAndEos) {
  for (const bool add_bos : {true, false}) {
    const Tokenizer tokenizer(train(400, sample_texts(), add_bos), "trained");
    EXPECT_TRUE(tokenizer.is_json());
    EXPECT_EQ(tokenizer.adds_bos(), add_bos);
    EXPECT_EQ(tokenizer.encode("<|begin_of_text|>"), Ids{tokenizer.bos_id()});
    EXPECT_EQ(tokenizer.encode("<|end_of_text|>"), Ids{tokenizer.eos_id()});
    const nlohmann::json config = nlohmann::json::parse(tokenizer.hf_tokenizer_config(true, 64));
    EXPECT_EQ(config.at("bos_token"), "<|begin_of_text|>");
    EXPECT_EQ(config.at("eos_token"), "<|end_of_text|>");
    EXPECT_EQ(config.at("model_max_length"), 64);
  }
}

// All characters of Unicode, and a token for each byte, also for those that no character has.
TEST(ByteBpeFiles, EveryByteIsAToken) {
  const std::vector<TokenizerFile> files = train(600, sample_texts());
  const Tokenizer tokenizer(files, "trained");
  const auto vocab = nlohmann::json::parse(files.front().bytes).at("model").at("vocab");
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_TRUE(vocab.contains(token_of_byte(static_cast<unsigned char>(byte)))) << byte;
  std::string text;
  for (char32_t c = 0; c < 0x110000; c += 1 + c / 0x1000) {
    if (c < 0xD800 || c >= 0xE000) append_utf8(text, c);
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(ByteBpeFiles, WordsAreCutLikeThoseOfLlama3) {
  const PreTokenizer pre_tokenizer = byte_bpe_pre_tokenizer();
  PreTokenizer::Scratch scratch;
  std::vector<std::string> words;
  pre_tokenizer.split("I'LL pay  12345 (now)!\n\n ok", scratch,
                      [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_EQ(words, (std::vector<std::string>{"I", "'LL", " pay", " ", " ", "123", "45", " (", "now",
                                             ")!\n\n", " ok"}));
}

// Each is one word for the pre-tokenizer. Uncut, every merge would go through all of it.
TEST(ByteBpeFiles, LongWordsAreCut) {
  std::string letters;
  uint64_t random = 1;
  for (int i = 0; i < 400'000; ++i) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    letters += "ACGT"[random >> 62];
  }
  const Tokenizer tokenizer(train(2000, {letters, std::string(1'000'000, '=')}), "trained");
  EXPECT_EQ(tokenizer.vocab_size(), 2000);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(letters)), letters);
  for (const uint32_t size : tokenizer.piece_bytes()) EXPECT_LE(size, 4096U);
}

}  // namespace
}  // namespace lmtrain
