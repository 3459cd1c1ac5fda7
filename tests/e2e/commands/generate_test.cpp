// generate: what it prints, and where it ends.
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "base/utf8.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

std::string generate(const Arguments& more) {
  Arguments command = {"generate", reference().run.path(), "--prompt",
                       "The ",     "--max-tokens",         "40"};
  command.insert(command.end(), more.begin(), more.end());
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  return result.out;
}

TEST(Generate, IsAFunctionOfItsSeed) {
  const std::string text = generate({"--seed", "1"});
  EXPECT_TRUE(text.starts_with("The ")) << text;
  EXPECT_GT(text.size(), 8U);
  EXPECT_EQ(generate({"--seed", "1"}), text);
  EXPECT_NE(generate({"--seed", "2"}), text);
  // Greedy needs no seed; nor does the smallest nucleus.
  const std::string greedy = generate({"--temperature", "0", "--seed", "1"});
  EXPECT_EQ(generate({"--temperature", "0", "--seed", "2"}), greedy);
  EXPECT_EQ(generate({"--top-p", "0", "--seed", "3"}), greedy);
  EXPECT_EQ(generate({"--top-k", "1", "--seed", "3"}), greedy);
  EXPECT_NE(generate({"--temperature", "0", "--repetition-penalty", "2"}), greedy);
}

TEST(Generate, TakesOddPrompts) {
  const std::string model = reference().run.path();
  for (const std::string& prompt :
       {std::string(), std::string("\xFF\xFE no text"), std::string("κόσμε \U0001F600\n\t")}) {
    const ProcessResult result =
        lmtrain({"generate", model, "--prompt", prompt, "--max-tokens", "5"});
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_TRUE(result.out.starts_with(prompt)) << result;
  }
  const ProcessResult nothing =
      lmtrain({"generate", model, "--prompt", "only this", "--max-tokens", "0"});
  EXPECT_EQ(nothing.out, "only this\n") << nothing;
}

TEST(Generate, FromEveryTarget) {
  for (const std::string& target :
       {reference().run.newest_checkpoint().string(),
        std::string(LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf"),
        std::string(LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf_sharded")}) {
    const ProcessResult result =
        lmtrain({"generate", target, "--prompt", "a", "--max-tokens", "3"});
    EXPECT_EQ(result.exit_code, 0) << result;
  }
}

// A model may have more rows than its tokenizer has pieces; what it has not learnt yet is any text.
TEST(Generate, DrawsNoIdWithoutAPiece) {
  const Workspace workspace;
  const RunDir run =
      train(workspace.config({{"model", {{"vocab_size", 2000}, {"tie_word_embeddings", false}}},
                              {"train", {{"steps", 2}}},
                              {"log", {{"samples", {{"prompts", {"The "}}, {"max_tokens", 30}}}}}}),
            workspace / "run");
  for (const char* seed : {"1", "2", "3"}) {
    const ProcessResult result =
        lmtrain({"generate", run.path(), "--prompt", "The ", "--temperature", "50", "--top-p", "1",
                 "--max-tokens", "30", "--seed", seed});
    EXPECT_EQ(result.exit_code, 0) << result;
  }
}

// transformers stops at the ids of generation_config.json.
TEST(Generate, EndsAtTheIdsOfTheFolder) {
  const Workspace workspace;
  const fs::path model = workspace / "model";
  fs::copy(LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf", model, fs::copy_options::recursive);
  const auto tokens = [&] {
    const std::string prompts = workspace.write("prompts.txt", "The \n");
    const ProcessResult result = lmtrain(
        {"generate", model, "--prompts", prompts, "--temperature", "0", "--max-tokens", "20"});
    EXPECT_EQ(result.exit_code, 0) << result;
    return Json::parse(result.out);
  };
  ASSERT_EQ(tokens().at("tokens"), 20);
  Json every_id = Json::array();
  for (int id = 0; id < 5000; ++id) every_id.push_back(id);
  workspace.write("model/generation_config.json", Json({{"eos_token_id", every_id}}).dump());
  EXPECT_EQ(tokens().at("tokens"), 0);
  EXPECT_EQ(tokens().at("end"), "eos");
}

// transformers takes those of config.json where generation_config.json has none.
TEST(Generate, EndsAtTheIdsOfTheModelsConfig) {
  const Workspace workspace;
  const fs::path model = workspace / "model";
  fs::copy(LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf", model, fs::copy_options::recursive);
  fs::remove(model / "generation_config.json");
  Json config = Json::parse(read_text(model / "config.json"));
  Json every_id = Json::array();
  for (int id = 0; id < 5000; ++id) every_id.push_back(id);
  config["eos_token_id"] = every_id;
  workspace.write("model/config.json", config.dump());
  const auto tokens = [&] {
    const ProcessResult result =
        lmtrain({"generate", model, "--prompt", "a", "--prompt", "b", "--max-tokens", "9"});
    EXPECT_EQ(result.exit_code, 0) << result;
    return Json::parse(result.out.substr(0, result.out.find('\n'))).at("tokens");
  };
  EXPECT_EQ(tokens(), 0);
  workspace.write("model/generation_config.json", R"({"do_sample": false})");
  EXPECT_EQ(tokens(), 0);
  workspace.write("model/generation_config.json", R"({"eos_token_id": [2]})");
  EXPECT_NE(tokens(), 0) << "its own list counts";
}

TEST(Generate, SeveralPromptsAreAnsweredLikeThoseOfAFile) {
  const Workspace workspace;
  const std::string model = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";
  const std::string file = workspace.write("prompts.txt", "The \n{}\n[a,b]\n\n");
  const ProcessResult typed = lmtrain({"generate", model, "--prompt", "The ", "--prompt", "{}",
                                       "--prompt", "[a,b]", "--prompt", "", "--max-tokens", "5"});
  EXPECT_EQ(typed.exit_code, 0) << typed;
  EXPECT_EQ(typed.out, lmtrain({"generate", model, "--prompts", file, "--max-tokens", "5"}).out);
  // With --json all answers are one document, and the answer to one prompt is an object.
  Json lines = Json::array();
  std::istringstream out(typed.out);
  for (std::string line; std::getline(out, line);) lines.push_back(Json::parse(line));
  const ProcessResult list =
      lmtrain({"generate", model, "--prompts", file, "--max-tokens", "5", "--json"});
  EXPECT_EQ(Json::parse(list.out), lines) << list;
  const ProcessResult one =
      lmtrain({"generate", model, "--prompt", "The ", "--max-tokens", "5", "--json"});
  EXPECT_EQ(Json::parse(one.out).at("prompt"), "The ") << one;
  EXPECT_TRUE(Json::parse(one.out).at("text").is_string()) << one;
  const ProcessResult braces = lmtrain({"generate", model, "--prompt", "{}", "--max-tokens", "0"});
  EXPECT_EQ(braces.out, "{}\n") << braces;
}

// The lines of an answer to --prompts.
std::vector<Json> answers(const std::string& file, const Arguments& more = {}) {
  Arguments command = {"generate", reference().run.path(), "--prompts", file};
  command.insert(command.end(), more.begin(), more.end());
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_TRUE(result.err.starts_with("checkpoint step 40 of ")) << result;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result;
  std::vector<Json> lines;
  std::istringstream out(result.out);
  for (std::string line; std::getline(out, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(Generate, AnswersTheLinesOfAFileInTheirOrder) {
  const Workspace workspace;
  const std::vector<std::string> prompts = {"The ", "", "a longer line than the others", "\"}"};
  std::string text, json;
  for (const std::string& prompt : prompts) {
    text += prompt + "\n";
    json += Json{{"prompt", prompt}}.dump() + "\n";
  }
  const Arguments options = {"--max-tokens", "20", "--seed", "5"};
  const std::vector<Json> lines = answers(workspace.write("prompts.txt", text), options);
  ASSERT_EQ(lines.size(), prompts.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(field_names(lines[i]),
              (Arguments{"prompt", "text", "tokens", "end", "checkpoint", "step"}));
    EXPECT_EQ(lines[i]["checkpoint"], reference().run.newest_checkpoint().string());
    EXPECT_TRUE(lines[i]["step"].is_number_integer()) << lines[i];
    EXPECT_EQ(lines[i]["prompt"], prompts[i]);
    // As that prompt alone, with a seed of its own.
    const ProcessResult alone = lmtrain({"generate", reference().run.path(), "--prompt", prompts[i],
                                         "--max-tokens", "20", "--seed", std::to_string(5 + i)});
    EXPECT_EQ(prompts[i] + lines[i]["text"].get<std::string>() + "\n", alone.out);
    EXPECT_EQ(lines[i]["end"] == "max_tokens", lines[i]["tokens"] == 20) << lines[i];
  }
  EXPECT_EQ(answers(workspace.write("prompts.jsonl", json), options), lines);
  Arguments one_by_one = options;
  one_by_one.insert(one_by_one.end(), {"--batch-size", "1"});
  EXPECT_EQ(answers(workspace.write("prompts.txt", text), one_by_one), lines);
}

// A model of 64 positions. After the prompt of N tokens it can draw 65 - N.
TEST(Generate, EndsWithTheModelsPositionsAndSaysSo) {
  const Workspace workspace;
  const std::string model = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";
  const Arguments greedy = {"--max-tokens", "1000", "--temperature", "0"};
  Arguments command = {"generate", model, "--prompt", "x"};
  command.insert(command.end(), greedy.begin(), greedy.end());
  const ProcessResult alone = lmtrain(command);
  EXPECT_EQ(alone.exit_code, 0) << alone;
  EXPECT_NE(alone.err.find("they fill the 64 positions of the model (max_position_embeddings)"),
            std::string::npos)
      << alone;
  command[2] = "--prompts";
  command[3] = workspace.write("one.txt", "x\n");
  const ProcessResult answered = lmtrain(command);
  const Json answer = Json::parse(answered.out);
  EXPECT_EQ(answered.err, "");
  EXPECT_EQ("x" + answer["text"].get<std::string>() + "\n", alone.out);
  EXPECT_EQ(answer["end"], "max_length");
  EXPECT_EQ(answer["tokens"], 63);  // the prompt is BOS and one more
}

TEST(Generate, StopsOnASignal) {
  const Workspace workspace;
  std::string prompts;
  for (int i = 0; i < 100000; ++i) prompts += "a\n";
  LmtrainProcess process(
      {"generate", reference().run.path(), "--prompts", workspace.write("many.txt", prompts)});
  ASSERT_TRUE(process.wait_until([&] { return process.out().find('\n') != std::string::npos; }));
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_TRUE(result.out.ends_with("\n"));
}

}  // namespace
}  // namespace lmtrain::testing
