#include "prepare/token_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "formats/token_bytes.h"
#include "formats/token_shard.h"
#include "prepare/folder.h"
#include "prepare/token_scan.h"
#include "tokenizer/model_bytes.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

class TokenFiles : public ::testing::Test {
 protected:
  TokenFiles() {
    config_.data.format = DataFormat::kTokens;
    config_.data.cache_dir = folder_.str("cache");
    config_.data.eval_fraction = 0;
    config_.tokenizer.model = kTokenizerModel;
    for (int i = 0; i < 100; ++i)
      texts_.push_back(str("document number ", i, std::string(static_cast<size_t>(i % 9), '\n')));
  }

  Ids encoded(const std::string& text, bool bos, bool eos) const {
    return tokenizer_.encode_document(text, bos, eos);
  }
  // All documents one after the other.
  Ids stream(bool bos, bool eos) const {
    Ids all;
    for (const std::string& text : texts_) {
      const Ids ids = encoded(text, bos, eos);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }
  PreparedData prepare(const std::string& pattern) {
    config_.data.train = {{folder_.str(pattern), 1.0}};
    return prepare_data(config_, 1);
  }
  static std::vector<Ids> documents_of(const fs::path& path) {
    const TokenShard shard(path, true);
    std::vector<Ids> documents;
    for (int64_t i = 0; i < shard.num_documents(); ++i) {
      Ids ids(static_cast<size_t>(shard.document_size(i)));
      shard.read_tokens(shard.document_begin(i), ids);
      documents.push_back(ids);
    }
    return documents;
  }
  void expect_documents(const PreparedData& data, bool bos, bool eos) const {
    const TokenShard shard(data.train_shard, true);
    const std::vector<Ids> documents = documents_of(data.train_shard);
    ASSERT_EQ(documents.size(), texts_.size());
    for (size_t i = 0; i < texts_.size(); ++i) {
      EXPECT_EQ(documents[i], encoded(texts_[i], bos, eos));
      EXPECT_EQ(shard.raw_bytes(static_cast<int64_t>(i)), texts_[i].size());
    }
    EXPECT_EQ(data.train_documents, static_cast<int64_t>(texts_.size()));
  }

  Folder folder_;
  Config config_;
  Tokenizer tokenizer_ = Tokenizer::load(kTokenizerModel);
  std::vector<std::string> texts_;
};

TEST_F(TokenFiles, DocumentsByEosByBosByBoth) {
  for (const auto& [bos, eos] : {std::pair{false, true}, {true, false}, {true, true}}) {
    const std::string name = str("a", bos, eos, ".bin");
    folder_.write(name, testing::ids_as<uint16_t>(stream(bos, eos)));
    expect_documents(prepare(name), bos, eos);
  }
}

// Tokenizers of GPT-2's kind have one id for both, which GPT-2's own files put behind each
// document, and llm.c before it.
TEST_F(TokenFiles, OneIdForBosAndEosStaysWithItsDocument) {
  folder_.write("t/tokenizer.json", reference_tokenizer_json("llama3"));
  folder_.write("t/special_tokens_map.json",
                R"({"bos_token": "<|end_of_text|>", "eos_token": "<|end_of_text|>"})");
  config_.tokenizer.model = folder_.str("t/tokenizer.json");
  const int32_t both = Tokenizer::load(folder_ / "t/tokenizer.json").eos_id();
  ASSERT_EQ(Tokenizer::load(folder_ / "t/tokenizer.json").bos_id(), both);
  folder_.write("behind.bin", testing::ids_as<uint16_t>({5, 6, both, 7, both, 8}));
  EXPECT_EQ(documents_of(prepare("behind.bin").train_shard),
            std::vector<Ids>({{5, 6, both}, {7, both}, {8}}));
  folder_.write("before.bin", testing::ids_as<uint16_t>({both, 5, 6, both, 7}));
  EXPECT_EQ(documents_of(prepare("before.bin").train_shard),
            std::vector<Ids>({{both, 5, 6}, {both, 7}}));
}

// Any two bytes are an id.
TEST_F(TokenFiles, TextInAFolderIsNotReadAsIds) {
  folder_.write("f/a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  folder_.write("f/readme.md", "# Tokens of a data set\n");
  for (const char* pattern : {"f", "f/*"}) {
    const std::string message = error_of(ErrorKind::kData, [&] { prepare(pattern); });
    expect_contains(message, folder_.str("f/readme.md"));
    expect_contains(message, "such as DIR/*.bin");
  }
  expect_documents(prepare("f/*.bin"), false, true);
}

TEST_F(TokenFiles, EveryPlainLayoutGivesTheSameDocuments) {
  const Ids ids = stream(false, true);
  folder_.write("a.bin", testing::ids_as<uint16_t>(ids));
  folder_.write("b.npy", testing::ids_as<uint32_t>(ids));
  folder_.write("c.npy", testing::numpy_bytes("<u2", testing::ids_as<uint16_t>(ids), ids.size()));
  folder_.write("d.npy", testing::numpy_bytes("<i8", testing::ids_as<int64_t>(ids), ids.size()));
  std::string fingerprint;
  for (const char* name : {"a.bin", "b.npy", "c.npy", "d.npy"}) {
    // The vocabulary is small, so that uint32 could as well be uint16 with zeros.
    config_.data.token_dtype =
        name == std::string_view("b.npy") ? TokenDtype::kUint32 : TokenDtype::kAuto;
    const PreparedData data = prepare(name);
    expect_documents(data, false, true);
    if (fingerprint.empty()) fingerprint = data.fingerprint;
    EXPECT_EQ(data.fingerprint, fingerprint) << name;
  }
}

TEST_F(TokenFiles, MegatronDocumentsByTheIndex) {
  // Without any separator.
  std::vector<int32_t> lengths;
  std::vector<int64_t> documents = {0};
  for (const std::string& text : texts_) {
    lengths.push_back(static_cast<int32_t>(encoded(text, false, false).size()));
    documents.push_back(static_cast<int64_t>(lengths.size()));
  }
  // What looks like a variable of the environment is a part of the name.
  folder_.write("m/${A}.bin", testing::ids_as<int32_t>(stream(false, false)));
  folder_.write("m/${A}.idx", testing::megatron_index(4, 4, lengths, documents));
  expect_documents(prepare("m"), false, false);
}

TEST_F(TokenFiles, LlmcDocumentsBeginWithItsSeparator) {
  // No vocabulary of ours has GPT-2's separator: the file is recognised, and refused for the id.
  folder_.write("a.bin", testing::llmc_bytes({50256, 5, 6, 50256, 7}, true));
  const std::string message = error_of(ErrorKind::kData, [&] { prepare("a.bin"); });
  expect_contains(message, "token 0 (byte 1024) is the id 50256");
  expect_contains(message, "llm.c");
  folder_.write("a.bin", testing::llmc_bytes({5, 6, 7}, true));
  EXPECT_EQ(documents_of(prepare("a.bin").train_shard), std::vector<Ids>({{5, 6, 7}}));
}

TEST_F(TokenFiles, DocumentsDoNotGoOnInTheNextFile) {
  const int32_t eos = tokenizer_.eos_id();
  folder_.write("f/1.bin", testing::ids_as<uint16_t>({5, 6, eos, 7}));
  folder_.write("f/2.bin", testing::ids_as<uint16_t>({8, eos, eos}));
  folder_.write("f/3.bin", "");
  const PreparedData data = prepare("f");
  EXPECT_EQ(documents_of(data.train_shard), std::vector<Ids>({{5, 6, eos}, {7}, {8, eos}, {eos}}));
}

TEST_F(TokenFiles, HeldOutByHashOfTheIds) {
  config_.data.eval_fraction = 0.2;
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  const PreparedData data = prepare("a.bin");
  const std::vector<Ids> train = documents_of(data.train_shard);
  const std::vector<Ids> eval = documents_of(*data.eval_shard);
  EXPECT_EQ(train.size() + eval.size(), texts_.size());
  EXPECT_GT(eval.size(), 5U);
  EXPECT_LT(eval.size(), 40U);
  EXPECT_EQ(data.eval_documents, static_cast<int64_t>(eval.size()));
  // More documents move none.
  texts_.insert(texts_.begin(), "one more in front");
  folder_.write("b.bin", testing::ids_as<uint16_t>(stream(false, true)));
  std::vector<Ids> after = documents_of(*prepare("b.bin").eval_shard);
  std::erase(after, encoded("one more in front", false, true));
  EXPECT_EQ(after, eval);
}

TEST_F(TokenFiles, GivenEvaluationFilesAndSources) {
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  folder_.write("b.bin", testing::ids_as<uint16_t>(stream(true, true)));
  config_.data.eval = {{{folder_.str("b.bin"), 1.0}}};
  config_.data.train = {{folder_.str("b.bin"), 1.0}, {folder_.str("a.bin"), 1.0}};
  const PreparedData data = prepare_data(config_, 1);
  EXPECT_EQ(data.train_documents, 200);
  EXPECT_EQ(data.eval_documents, 100);
  EXPECT_EQ(data.train_targets, data.train_tokens - 200);
  EXPECT_EQ(data.eval_targets, data.eval_tokens - 100);
  ASSERT_EQ(data.sources.size(), 2U);
  EXPECT_EQ(data.sources[0].source, 1);
  EXPECT_EQ(data.sources[1].first_document, 100);
  EXPECT_EQ(data.sources[1].source, 0);
}

TEST_F(TokenFiles, SourcesOfHeldOutDocuments) {
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  for (std::string& text : texts_) text += "!";
  folder_.write("b.bin", testing::ids_as<uint16_t>(stream(false, true)));
  config_.data.train = {{folder_.str("b.bin"), 1.0}, {folder_.str("a.bin"), 1.0}};
  const auto expect_sources = [&](bool held_out) {
    const PreparedData data = prepare_data(config_, 1);
    const std::vector<Ids> documents = documents_of(*data.eval_shard);
    ASSERT_EQ(data.eval_sources.size(), documents.size());
    std::set<int32_t> seen;
    for (size_t i = 0; i < documents.size(); ++i) {
      const bool is_first = std::find(documents[i].begin(), documents[i].end(),
                                      encoded("!", false, false).back()) != documents[i].end();
      EXPECT_EQ(data.eval_sources[i], is_first ? 0 : 1) << i;
      seen.insert(data.eval_sources[i]);
    }
    EXPECT_EQ(seen.size(), 2U);
    EXPECT_EQ(prepare_data(config_, 1).eval_sources, data.eval_sources);
    EXPECT_EQ(data.train_documents, held_out ? 200 - data.eval_documents : 200);
  };
  config_.data.eval_fraction = 0.5;
  expect_sources(true);
  config_.data.eval = {{folder_.str("b.bin"), 1.0, "one"}, {folder_.str("a.bin"), 1.0, "two"}};
  expect_sources(false);
}

TEST_F(TokenFiles, TheCacheNoticesOtherFiles) {
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  const PreparedData first = prepare("a.bin");
  const auto written = fs::last_write_time(first.train_shard);
  const PreparedData again = prepare("a.bin");
  EXPECT_EQ(again.fingerprint, first.fingerprint);
  EXPECT_EQ(again.train_tokens, first.train_tokens);
  EXPECT_EQ(fs::last_write_time(again.train_shard), written) << "nothing was written again";
  texts_.pop_back();
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  const PreparedData other = prepare("a.bin");
  EXPECT_NE(other.fingerprint, first.fingerprint);
  expect_documents(other, false, true);
  // Touched, but the same: the reference is made again under the same name.
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  EXPECT_EQ(prepare("a.bin").fingerprint, other.fingerprint);
  expect_documents(prepare("a.bin"), false, true);
}

// A shard of token files names these files, so that equal ids elsewhere have another one.
TEST_F(TokenFiles, EqualIdsInTwoPlacesAreTwoReferences) {
  const std::string ids = testing::ids_as<uint16_t>(stream(false, true));
  folder_.write("a.bin", ids);
  folder_.write("b.bin", ids);
  const PreparedData first = prepare("a.bin");
  const PreparedData other = prepare("b.bin");
  EXPECT_EQ(other.fingerprint, first.fingerprint);
  folder_.write("b.bin", std::string(ids.size(), '\1'));
  expect_documents(prepare("a.bin"), false, true);
}

TEST_F(TokenFiles, WhatCannotBe) {
  folder_.write("a.bin", testing::ids_as<uint16_t>({5, 6, 65535}));
  expect_contains(error_of(ErrorKind::kData, [&] { prepare("a.bin"); }), "token 2 (byte 4)");
  folder_.write("b.npy", testing::numpy_bytes("<i4", testing::ids_as<int32_t>({5, -6}), 2));
  expect_contains(error_of(ErrorKind::kData, [&] { prepare("b.npy"); }), "is no id");
  folder_.write("d.npy", testing::numpy_bytes("<i2", testing::ids_as<uint16_t>({5, 65436}), 2));
  expect_contains(error_of(ErrorKind::kData, [&] { prepare("d.npy"); }), "is no id");
  folder_.write("c.bin", "");
  expect_contains(error_of(ErrorKind::kData, [&] { prepare("c.bin"); }), "no document");
  config_.tokenizer.model.reset();
  expect_contains(error_of(ErrorKind::kConfig, [&] { prepare("a.bin"); }), "/tokenizer/model");
}

TEST_F(TokenFiles, BytesOfPiecesAreThoseOfTheText) {
  const std::vector<uint32_t> bytes = tokenizer_.piece_bytes();
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), tokenizer_.vocab_size());
  for (const char* text : {"plain text", "  \xF0\x9F\x98\x80 \xC3\xA9\t\n", "", "   "}) {
    size_t sum = 0;
    for (const int32_t id : encoded(text, true, true)) sum += bytes[static_cast<size_t>(id)];
    EXPECT_EQ(sum, std::string(text).size()) << text;
  }
}

TEST_F(TokenFiles, TheWidthIsSaidWhereTheFileCouldHaveEither) {
  Ids pairs;
  for (int i = 0; i < 400; ++i) pairs.insert(pairs.end(), {5, 0});
  folder_.write("a.bin", testing::ids_as<uint16_t>(pairs));
  expect_contains(error_of(ErrorKind::kData, [&] { prepare("a.bin"); }), "data.token_dtype");
  config_.data.token_dtype = TokenDtype::kUint16;
  const PreparedData narrow = prepare("a.bin");
  EXPECT_EQ(narrow.train_tokens, 800);
  config_.data.token_dtype = TokenDtype::kUint32;
  const PreparedData wide = prepare("a.bin");
  EXPECT_EQ(wide.train_tokens, 400);
  EXPECT_NE(wide.fingerprint, narrow.fingerprint);
}

// Whether the file is named, in a folder or under a pattern.
TEST_F(TokenFiles, ForeignLayoutsAreNoIds) {
  const std::string ids = testing::ids_as<uint16_t>(stream(false, true));
  const std::string lit = std::string("LITPKDS\1\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0", 24);
  for (const auto& [head, name] : std::vector<std::pair<std::string, const char*>>{
           {lit, "lit-gpt"},
           {std::string("PK\x03\x04"), "zip"},
           {std::string("MMIDIDX\0\0", 9), "Megatron"},
           {std::string(1000, 'a') + "\n", "text"},
           {std::string("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 5\n"),
            "git lfs pull"}}) {
    const bool is_text = head.front() == 'a' || head.front() == 'v';
    folder_.write("f/a.bin", is_text ? head : head + ids);
    for (const char* path : {"f/a.bin", "f", "f/*"}) {
      const std::string message = error_of(ErrorKind::kData, [&] { prepare(path); });
      expect_contains(message, name);
      expect_contains(message, folder_.str("f/a.bin"));
    }
  }
}

TEST_F(TokenFiles, IdsThatNoTextHasAreRefused) {
  const auto problem = [&](const std::string& bytes) {
    folder_.write("a.bin", bytes);
    return error_of(ErrorKind::kData, [&] { prepare("a.bin"); });
  };
  config_.data.token_dtype = TokenDtype::kUint16;
  expect_contains(problem(std::string(1 << 16, '\0')), "of its first 32768 ids 32768 are 0");
  Ids control;
  for (int i = 0; i < 5000; ++i) control.push_back(i % 3 == 0 ? 5 : tokenizer_.bos_id());
  folder_.write("a.bin", testing::ids_as<uint16_t>(control));
  EXPECT_EQ(prepare("a.bin").train_tokens, 5000) << "BOS stands between texts";
}

// A vocabulary of all that uint16 holds has no id outside.
TEST_F(TokenFiles, IdsWithTheirHighByteFirstAreRefused) {
  SentencePieceModel model;
  model.type = ModelType::kBpe;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown},
                  {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl}};
  for (int i = 3; i < 65536; ++i)
    model.pieces.push_back({str("p", i), -static_cast<float>(i), PieceType::kNormal});
  config_.tokenizer.model = folder_.write("big.model", model_bytes(model)).native();
  Ids ids;
  uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double u = static_cast<double>(state >> 11U) * 0x1p-53;
    ids.push_back(static_cast<int32_t>(3 + 3000 * u * u * u));
  }
  const std::string bytes = testing::ids_as<uint16_t>(ids);
  folder_.write("little.bin", bytes);
  EXPECT_EQ(prepare("little.bin").train_tokens, 20000);
  std::string swapped = bytes;
  for (size_t i = 0; i < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  folder_.write("big.bin", swapped);
  expect_contains(error_of(ErrorKind::kData, [&] { prepare("big.bin"); }), "big-endian");
}

// sentencepiece spells a space in three byte pieces where the model has no piece for one.
TEST_F(TokenFiles, ASpaceIsOneByteAlsoWithoutAPieceForIt) {
  SentencePieceModel model;
  model.type = ModelType::kBpe;
  model.byte_fallback = true;
  model.adds_prefix = false;
  model.removes_spaces = false;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown},
                  {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl}};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    model.pieces.push_back({text, 0, PieceType::kByte});
  }
  for (const char c : std::string("abc")) model.pieces.push_back({std::string(1, c), -1});
  config_.tokenizer.model = folder_.write("bytes.model", model_bytes(model)).native();
  tokenizer_ = Tokenizer::load(*config_.tokenizer.model);
  texts_ = {"a b c", "  ", "a\xE2\x80\x94 b", "abc", " \xC3\xA9 "};
  ASSERT_EQ(tokenizer_.encode("a b").size(), 5U);
  folder_.write("a.bin", testing::ids_as<uint16_t>(stream(false, true)));
  expect_documents(prepare("a.bin"), false, true);
  // Held out in blocks, which are cut anywhere.
  config_.data.eval_fraction = 0.1;
  texts_ = {""};
  for (int i = 0; i < 9000; ++i) texts_[0] += i % 3 == 0 ? " " : i % 7 == 0 ? "a" : "b";
  folder_.write("b.bin", testing::ids_as<uint16_t>(stream(false, true)));
  const PreparedData data = prepare("b.bin");
  EXPECT_EQ(data.train_bytes + data.eval_bytes, 9000);
}

}  // namespace
}  // namespace lmtrain
