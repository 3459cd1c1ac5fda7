#include "prepare/given_tokenizer.h"

#include "prepare/folder.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

class DocumentEnds : public ::testing::Test {
 protected:
  // BOS and EOS of a run with this tokenizer.
  std::pair<bool, bool> ends_of(const std::string& file) {
    Config config = given_;
    config.tokenizer.model = folder_.str(file);
    resolve_document_ends(config);
    return {config.tokenizer.add_bos.value(), config.tokenizer.add_eos.value()};
  }
  void write_json(const std::string& rules, const std::string& settings) {
    folder_.write("tokenizer.json", reference_tokenizer_json(rules));
    folder_.write("tokenizer_config.json", settings);
  }

  Folder folder_;
  Config given_;
};

using Ends = std::pair<bool, bool>;

TEST_F(DocumentEnds, ATrainedTokenizerAddsBoth) {
  resolve_document_ends(given_);
  EXPECT_EQ(given_.tokenizer.add_bos, true);
  EXPECT_EQ(given_.tokenizer.add_eos, true);
}

TEST_F(DocumentEnds, ATokenizerJsonSaysWhetherItAddsBos) {
  // Qwen 3: no BOS at all.
  write_json("qwen2", R"({"bos_token": null, "eos_token": "<|im_end|>", "add_bos_token": false})");
  EXPECT_EQ(ends_of("tokenizer.json"), Ends(false, true));
  // SmolLM 2: BOS has a name, and nothing puts it before a text.
  write_json("smollm", R"({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})");
  EXPECT_EQ(ends_of("tokenizer.json"), Ends(false, true));
  // Llama 3: the template does.
  write_json("llama3", R"({"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"})");
  EXPECT_EQ(ends_of("tokenizer.json"), Ends(true, true));
  // Without EOS documents cannot end in it.
  write_json("qwen2", "{}");
  EXPECT_EQ(ends_of("tokenizer.json"), Ends(false, false));
}

TEST_F(DocumentEnds, ASentencePieceModelHasTheConventionOfLlama) {
  folder_.write("tokenizer.model", read_file(kTokenizerModel));
  EXPECT_EQ(ends_of("tokenizer.model"), Ends(true, true));
  folder_.write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": false})");
  EXPECT_EQ(ends_of("tokenizer.model"), Ends(false, true));
}

TEST_F(DocumentEnds, WhatTheConfigSaysStays) {
  write_json("smollm", R"({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})");
  given_.tokenizer.add_bos = true;
  EXPECT_EQ(ends_of("tokenizer.json"), Ends(true, true));
  given_.tokenizer.add_eos = false;
  EXPECT_EQ(ends_of("tokenizer.json"), Ends(true, false));
}

// Nothing is added to token files, and nothing is said of it.
TEST_F(DocumentEnds, OfTokenFilesAreNotSpokenOf) {
  write_json("smollm", R"({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})");
  for (const DataFormat format : {DataFormat::kTokens, DataFormat::kAuto}) {
    given_.data.format = format;
    ::testing::internal::CaptureStderr();
    ends_of("tokenizer.json");
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("added") == std::string::npos, format == DataFormat::kTokens) << said;
  }
}

TEST_F(DocumentEnds, AMissingTokenizerIsAUsageError) {
  Config config;
  config.tokenizer.model = folder_.str("none.model");
  expect_contains(error_of(ErrorKind::kUsage, [&] { resolve_document_ends(config); }),
                  "does not exist");
}

}  // namespace
}  // namespace lmtrain
