// A tokenizer.json behind Tokenizer, with the files beside it.
#include "tokenizer/tokenizer_json_files.h"

#include "prepare/folder.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

using nlohmann::json;

class TokenizerJsonFiles : public ::testing::Test {
 protected:
  TokenizerJsonFiles() { folder_.write("tokenizer.json", reference_tokenizer_json("llama3")); }
  Tokenizer load() const { return Tokenizer::load(folder_.path() / "tokenizer.json"); }
  std::string problem() const {
    return error_of(ErrorKind::kData, [&] { load(); });
  }

  Folder folder_;
};

// Alone it has what its post-processor puts around a text.
TEST_F(TokenizerJsonFiles, ThePostProcessorNamesBos) {
  const Tokenizer tokenizer = load();
  EXPECT_TRUE(tokenizer.is_json());
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.decode({tokenizer.bos_id()}), "");
  EXPECT_GE(tokenizer.bos_id(), 256);
  EXPECT_EQ(tokenizer.eos_id(), -1);
  EXPECT_EQ(tokenizer.why_slow(), "");
  EXPECT_EQ(tokenizer.encode_document("", true, false), std::vector<int32_t>{tokenizer.bos_id()});
  expect_contains(error_of(ErrorKind::kData, [&] { tokenizer.require_special_ids(true, true); }),
                  "has no eos piece that the files beside it name; set tokenizer.add_eos to false");
  EXPECT_EQ(json::parse(tokenizer.hf_tokenizer_config(true, 8)).at("bos_token"),
            "<|begin_of_text|>");
}

TEST_F(TokenizerJsonFiles, TheFilesBesideItNameBosAndEos) {
  const int32_t begin = load().bos_id();
  folder_.write("special_tokens_map.json", R"({"eos_token": {"content": "<|eot_id|>"}})");
  EXPECT_EQ(load().eos_id(), begin + 2);
  folder_.write(
      "tokenizer_config.json",
      R"({"bos_token": null, "eos_token": "<|end_of_text|>", "pad_token": "<|eot_id|>"})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.bos_id(), -1);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.eos_id(), begin + 1);
  EXPECT_EQ(tokenizer.pad_id(), begin + 2);
  ASSERT_EQ(tokenizer.files().size(), 3U);
  EXPECT_EQ(tokenizer.files()[0].name, "tokenizer.json");
  EXPECT_EQ(tokenizer.files()[1].name, "tokenizer_config.json");
}

TEST_F(TokenizerJsonFiles, FilesThatContradictItAreRefused) {
  folder_.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  expect_contains(problem(),
                  "has no token \"</s>\", which is \"eos_token\" in tokenizer_config.json");
  folder_.write("tokenizer_config.json", "{");
  expect_contains(problem(), folder_.str("tokenizer_config.json") + ": not JSON at byte");
  folder_.write("tokenizer_config.json", "[]");
  expect_contains(problem(), "is no JSON object");
}

TEST_F(TokenizerJsonFiles, AFileThatIsCutShortIsDamaged) {
  const std::string whole = reference_tokenizer_json("llama3");
  folder_.write("tokenizer.json", std::string_view(whole).substr(0, whole.size() / 2));
  expect_contains(problem(), folder_.str("tokenizer.json") + ": not JSON at byte");
}

TEST_F(TokenizerJsonFiles, AFileThatIsTooLargeIsRefused) {
  std::string large = reference_tokenizer_json("llama3");
  large.append(size_t{64} << 20, ' ');
  folder_.write("tokenizer.json", large);
  expect_contains(problem(), "holds more than the 64.0 MiB");
}

}  // namespace
}  // namespace lmtrain
