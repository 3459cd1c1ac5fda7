// Errors of text and tokenizer.
#include "e2e/errors/error_case.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// train on one file of this content.
ErrorCase corpus_case(const std::string& name, int exit_code, const std::string& file,
                      const std::string& text, const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [file, text](const Workspace& workspace) {
            const std::string path = workspace.write(file, text);
            return train_command(workspace, workspace.config({{"data", {{"train", {path}}}}}));
          }};
}

ErrorCase tokenizer_case(const std::string& name, int exit_code, const std::string& text,
                         const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [text](const Workspace& workspace) {
            const std::string path = workspace.write("wrong.model", text);
            return train_command(workspace, workspace.config({{"tokenizer", {{"model", path}}}}));
          }};
}

std::vector<ErrorCase> data_cases() {
  const std::string model =
      read_text(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model");
  return {
      config_case("MissingCorpus", 2, {{"data", {{"train", {"no/such/folder"}}}}},
                  {"/data/train/0", "no/such/folder", "check the spelling"}),
      config_case("PatternWithoutMatch", 2, {{"data", {{"train", {"data/sample/*.rst"}}}}},
                  {"/data/train/0", "data/sample/*.rst", "matches no file"}),
      config_case("MissingEvalCorpus", 2, {{"data", {{"eval", {"no-such.txt"}}}}},
                  {"/data/eval/0", "no-such.txt"}),
      // Reading a process's memory at address 0 is an error even for root.
      config_case("UnreadableCorpus", 5, {{"data", {{"train", {"/proc/self/mem"}}}}},
                  {"cannot read /proc/self/mem"}),
      {"EmptyFolder",
       2,
       {"/data/train/0", "holds no files"},
       [](const Workspace& workspace) {
         fs::create_directory(workspace / "text");
         return train_command(workspace,
                              workspace.config({{"data", {{"train", {workspace / "text"}}}}}));
       }},
      corpus_case("NoDocument", 3, "empty.jsonl", "\n\n", {"/data/train", "no document"}),
      corpus_case("BrokenLine", 3, "broken.jsonl",
                  "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"thr",
                  {"broken.jsonl:3", "not JSON", "one JSON object"}),
      corpus_case("MissingField", 3, "fields.jsonl", "{\"text\": \"one\"}\n{\"txt\": \"two\"}\n",
                  {"fields.jsonl:2", "\"text\"", "\"txt\"", "data.text_field"}),
      corpus_case("FieldNoString", 3, "types.jsonl", "{\"text\": 5}\n",
                  {"types.jsonl:1", "number", "string"}),
      corpus_case("LineNoObject", 3, "list.jsonl", "[1]\n", {"list.jsonl:1", "object"}),
      corpus_case("Archive", 3, "text.txt.gz", "x", {"text.txt.gz", "cut short", "byte 1"}),
      corpus_case("UnreadArchive", 2, "text.txt.lz4", "x", {"text.txt.lz4", ".lz4"}),
      corpus_case("Table", 3, "text.parquet", "PAR1", {"text.parquet", "damaged"}),
      config_case("MissingTokenizer", 2, {{"tokenizer", {{"model", "no-such.model"}}}},
                  {"/tokenizer/model", "no-such.model", "null"}),
      config_case("TokenizerIsAFolder", 2, {{"tokenizer", {{"model", "data/sample"}}}},
                  {"data/sample", "is a folder", "give the .model file"}),
      tokenizer_case("TokenizerIsText", 3, "this is no model",
                     {"wrong.model", "not a sentencepiece model"}),
      tokenizer_case("TokenizerIsEmpty", 3, "", {"wrong.model", "not a sentencepiece model"}),
      tokenizer_case("TokenizerIsCut", 3, model.substr(0, model.size() / 2 + 1),
                     {"wrong.model", "not a sentencepiece model"}),
      config_case("TokenizerLargerThanModel", 2, {{"model", {{"vocab_size", 300}}}},
                  {"model.vocab_size", "300", "384", "null"}),
      config_case("TooLittleTextForVocabulary", 3,
                  {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 30000}}}}}},
                  {"tokenizer.train.vocab_size", "30000"}),
  };
}

INSTANTIATE_TEST_SUITE_P(Data, Errors, ::testing::ValuesIn(data_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
