// A run that begins from weights of others (`init_from`): the tokenizer must be theirs, a run
// folder stands for its newest checkpoint, and a length that changes is said.
#include <gtest/gtest.h>

#include "e2e/references.h"
#include "e2e/tamper.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

const std::string kHf = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";

Json from(const std::string& folder, Json changes = Json::object()) {
  Json config = {{"init_from", folder}, {"model", nullptr}, {"tokenizer", nullptr}};
  config.update(changes);
  return config;
}

std::string copy_of_hf(const Workspace& workspace) {
  fs::copy(kHf, workspace / "hf");
  return (workspace / "hf").string();
}

ProcessResult train_in(const Workspace& workspace, const Json& changes) {
  return lmtrain({"train", workspace.config(changes), "--run-dir", (workspace / "run").string()});
}

void expect_refused(const Workspace& workspace, const ProcessResult& result, int exit_code,
                    const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
  EXPECT_FALSE(fs::exists(workspace / "run/config.json")) << "a run was begun";
  EXPECT_FALSE(fs::exists(workspace / "cache")) << "data was prepared";
}

// A new tokenizer would have as many pieces as the weights have rows: nothing else keeps it from
// being trained.
TEST(GivenModel, WithoutItsTokenizerIsRefused) {
  for (const bool has_vocabulary : {true, false}) {
    const Workspace workspace;
    const std::string folder = copy_of_hf(workspace);
    fs::remove(folder + "/tokenizer.model");
    if (has_vocabulary) workspace.write("hf/vocab.json", "{}");
    const Json fitting = {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 384}}}}},
                          {"data", {{"train", {LMTRAIN_SOURCE_DIR "/LICENSE"}}}}};
    expect_refused(
        workspace, train_in(workspace, from(folder, fitting)), 2,
        {"/init_from", folder, has_vocabulary ? "vocab.json, which is not read" : "no tokenizer)",
         "tokenizer.allow_mismatch"});
  }
}

// A scheduler starts the same command again, when the given run may have a newer checkpoint.
TEST(GivenModel, ARunGoesOnByTheCommandThatBeganIt) {
  const Workspace workspace;
  const RunDir given = reference().run.copy(workspace / "given");
  const std::vector<std::string> command = {"train",
                                            workspace.config(from("${GIVEN}")),
                                            "--run-dir",
                                            (workspace / "run").string(),
                                            "--continue",
                                            "--set",
                                            "init_from=" + given.path(),
                                            "--set",
                                            "train.steps=4"};
  ProcessOptions options;
  options.env["GIVEN"] = given.path();
  for (const char* said : {"run        4 steps", "is finished"}) {
    const ProcessResult result = lmtrain(command, options);
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_NE(result.err.find(said), std::string::npos) << result;
  }
}

TEST(GivenModel, ANewTokenizerIsTrainedWhereThatIsAskedFor) {
  const Workspace workspace;
  const std::string folder = copy_of_hf(workspace);
  fs::remove(folder + "/tokenizer.model");
  const ProcessResult result = train_in(
      workspace,
      from(folder,
           {{"tokenizer",
             {{"model", nullptr}, {"allow_mismatch", true}, {"train", {{"vocab_size", 384}}}}},
            {"data", {{"train", {LMTRAIN_SOURCE_DIR "/LICENSE"}}}},
            {"train", {{"steps", 2}}}}));
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("warning: a new tokenizer is trained under the weights"),
            std::string::npos)
      << result;
}

TEST(GivenModel, AnotherTokenizerIsRefusedOrWarnedOf) {
  const Workspace workspace;
  const Json other = {{"tokenizer", {{"model", other_tokenizer(workspace)}}},
                      {"train", {{"steps", 2}}}};
  expect_refused(
      workspace, train_in(workspace, from(kHf, other)), 2,
      {"is not the tokenizer of the weights", kHf + "/tokenizer.model", "allow_mismatch"});
  Json allowed = other;
  allowed["tokenizer"]["allow_mismatch"] = true;
  const ProcessResult result = train_in(workspace, from(kHf, allowed));
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("warning: tokenizer.model"), std::string::npos) << result;
}

TEST(GivenModel, ALargerVocabularyThanTheEmbeddingIsRefused) {
  const Workspace workspace;
  const std::string folder = copy_of_hf(workspace);
  Json config = Json::parse(read_text(folder + "/config.json"));
  config["vocab_size"] = 100;
  workspace.write("hf/config.json", config.dump());
  expect_refused(workspace, train_in(workspace, from(folder)), 2,
                 {"pieces", "100 rows", "do not belong together"});
}

// The same content elsewhere is the same tokenizer; a folder without one cannot be compared.
TEST(GivenModel, TheSameTokenizerByAnotherPathIsFine) {
  const Workspace workspace;
  const std::string folder = copy_of_hf(workspace);
  fs::copy_file(kHf + "/tokenizer.model", workspace / "same.model");
  const Json given = {{"tokenizer", {{"model", (workspace / "same.model").string()}}},
                      {"train", {{"steps", 1}}}};
  const std::string config = workspace.config(from(folder, given));
  const ProcessResult same = lmtrain({"train", config, "--dry-run"});
  EXPECT_EQ(same.exit_code, 0) << same;
  EXPECT_EQ(same.err.find("tokenizer of the weights"), std::string::npos) << same;
  fs::remove(folder + "/tokenizer.model");
  const ProcessResult unknown = lmtrain({"train", config, "--dry-run"});
  EXPECT_EQ(unknown.exit_code, 0) << unknown;
  EXPECT_NE(unknown.err.find("to compare tokenizer.model with"), std::string::npos) << unknown;
}

// The vocabulary of tokenizer.json is compared where there is nothing else.
TEST(GivenModel, ATokenizerJsonTellsAnotherTokenizer) {
  const Workspace workspace;
  const std::string folder = copy_of_hf(workspace);
  fs::copy_file(kHf + "/tokenizer.model", workspace / "same.model");
  fs::remove(folder + "/tokenizer.model");
  workspace.write("hf/tokenizer.json",
                  R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}}})");
  const Json given = {{"tokenizer", {{"model", (workspace / "same.model").string()}}}};
  expect_refused(workspace, train_in(workspace, from(folder, given)), 2,
                 {"is not the tokenizer of the weights", folder + "/tokenizer.json", "id 0 is",
                  "allow_mismatch"});
}

// A tokenizer that is given for eval is compared likewise.
TEST(GivenModel, EvalWarnsOfAnotherTokenizer) {
  const Workspace workspace;
  const std::string text = workspace.write("text.txt", "some text to evaluate on\n");
  const ProcessResult result =
      lmtrain({"eval", kHf, "--data", text, "--tokenizer", other_tokenizer(workspace)});
  EXPECT_NE(result.err.find("is not the tokenizer of the model"), std::string::npos) << result;
  fs::copy_file(kHf + "/tokenizer.model", workspace / "same.model");
  const ProcessResult same =
      lmtrain({"eval", kHf, "--data", text, "--tokenizer", (workspace / "same.model").string()});
  EXPECT_EQ(same.exit_code, 0) << same;
  EXPECT_EQ(same.err.find("is not the tokenizer"), std::string::npos) << same;
}

// What is wrong with a tokenizer.json is said with its place.
TEST(GivenModel, ATokenizerJsonThatIsNotSupportedIsRefused) {
  const Workspace workspace;
  const std::string json =
      workspace.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}}})");
  const ProcessResult result = train_in(workspace, {{"tokenizer", {{"model", json}}}});
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_NE(result.err.find(json + ": /model/merges is null, not an array"), std::string::npos)
      << result;
}

// The advice for weights whose tokenizer is of a kind that is not read can be followed.
TEST(GivenModel, WeightsWithATokenizerOfAnotherKindTakeAnotherOne) {
  const Workspace workspace;
  const std::string folder = copy_of_hf(workspace);
  fs::rename(folder + "/tokenizer.model", workspace / "other.model");
  workspace.write("hf/tokenizer.json",
                  R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}})");
  expect_refused(workspace, train_in(workspace, from(folder)), 3,
                 {"WordPiece", "set both tokenizer.model and tokenizer.allow_mismatch"});
  Json other = {{"tokenizer", {{"model", (workspace / "other.model").string()}}}};
  const ProcessResult one = train_in(workspace, from(folder, other));
  expect_refused(workspace, one, 2, {"; set tokenizer.allow_mismatch to true"});
  EXPECT_EQ(one.err.find("leave tokenizer.model out"), std::string::npos) << one;
  other["tokenizer"]["allow_mismatch"] = true;
  other["train"]["steps"] = 1;
  const ProcessResult both = train_in(workspace, from(folder, other));
  EXPECT_EQ(both.exit_code, 0) << both;
}

// Before the data is prepared, and by plan as by train.
TEST(GivenModel, AFolderWithoutWeightsIsRefused) {
  const Workspace workspace;
  const std::string folder = copy_of_hf(workspace);
  fs::rename(folder + "/model.safetensors", folder + "/pytorch_model.bin");
  const std::string config = workspace.config(from(folder));
  for (const std::string command : {"train", "plan"}) {
    expect_refused(workspace, lmtrain({command, config}), 3,
                   {"only pytorch_model.bin", "AutoTokenizer.from_pretrained(FOLDER)"});
  }
}

// A run with a tokenizer.json: its checkpoints carry the files of the tokenizer as they are, and
// another run, eval and generate take it from there.
TEST(GivenModel, ATokenizerJsonGoesWithItsModel) {
  const Workspace workspace;
  const std::string json =
      workspace.write("their/tokenizer.json",
                      read_text(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer_json/gpt2.json"));
  const std::string settings = workspace.write(
      "their/tokenizer_config.json",
      R"({"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>"}})");
  const Json few = {{"train", {{"steps", 3}}}, {"eval", {{"every", "3 steps"}}}};
  Json first = few;
  first["tokenizer"] = {{"model", json}};
  const ProcessResult result = train_in(workspace, first);
  ASSERT_EQ(result.exit_code, 0) << result;
  const fs::path checkpoint = RunDir(workspace / "run").newest_checkpoint();
  EXPECT_EQ(read_text(checkpoint / "tokenizer.json"), read_text(json));
  EXPECT_EQ(read_text(checkpoint / "tokenizer_config.json"), read_text(settings));
  EXPECT_FALSE(fs::exists(checkpoint / "tokenizer.model"));

  const ProcessResult next = lmtrain({"train", workspace.config(from(checkpoint.string(), few)),
                                      "--run-dir", (workspace / "next").string()});
  EXPECT_EQ(next.exit_code, 0) << next;
  const Json kept = Json::parse(read_text(workspace / "next/config.json"));
  EXPECT_EQ(kept.at("tokenizer").at("model"), (checkpoint / "tokenizer.json").string());

  const std::string text = workspace.write("text.txt", "some text to evaluate on\n");
  const ProcessResult eval = lmtrain({"eval", checkpoint.string(), "--data", text});
  EXPECT_EQ(eval.exit_code, 0) << eval;
  const ProcessResult generated =
      lmtrain({"generate", checkpoint.string(), "--prompt", "some text", "--max-tokens", "3"});
  EXPECT_EQ(generated.exit_code, 0) << generated;
  EXPECT_TRUE(generated.out.starts_with("some text")) << generated;
}

// The tokenizer of a resumed run is trained anew where the cache is gone, and must be the same.
TEST(GivenModel, ATrainedTokenizerJsonGoesWithItsModel) {
  const Workspace workspace;
  const Json few = {{"train", {{"steps", 3}}}, {"eval", {{"every", "3 steps"}}}};
  Json first = few;
  first["tokenizer"] = {{"model", nullptr}, {"train", {{"type", "byte_bpe"}, {"vocab_size", 400}}}};
  const RunDir run = train(workspace.config(first), workspace / "run");
  fs::remove_all(workspace / "cache");
  const std::string json = read_text(run.newest_checkpoint() / "tokenizer.json");
  const ProcessResult resumed = lmtrain({"resume", run.path(), "--set", "train.steps=6"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  const fs::path checkpoint = run.newest_checkpoint();
  EXPECT_EQ(read_text(checkpoint / "tokenizer.json"), json);
  EXPECT_FALSE(fs::exists(checkpoint / "tokenizer.model"));
  const Json settings = Json::parse(read_text(checkpoint / "tokenizer_config.json"));
  EXPECT_EQ(settings.at("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(settings.at("eos_token"), "<|end_of_text|>");
  const Json model = Json::parse(read_text(checkpoint / "config.json"));
  EXPECT_EQ(model.at("vocab_size"), 400);
  EXPECT_EQ(model.at("bos_token_id"), 0);
  EXPECT_EQ(model.at("eos_token_id"), 1);

  // By itself the folder tells as much as the run does.
  fs::copy(checkpoint, workspace / "alone");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "--data", LMTRAIN_SOURCE_DIR "/LICENSE", "--json"},
        std::vector<std::string>{"generate", "--prompt", "some text", "--max-tokens", "3"}}) {
    std::vector<std::string> outputs;
    for (const std::string& target : {run.path(), (workspace / "alone").string()}) {
      std::vector<std::string> words = command;
      words.insert(words.begin() + 1, target);
      const ProcessResult result = lmtrain(words);
      EXPECT_EQ(result.exit_code, 0) << result;
      outputs.push_back(result.out.substr(0, result.out.find(",\"target\"")));
    }
    EXPECT_EQ(outputs[0], outputs[1]);
  }
  const ProcessResult next =
      lmtrain({"train", workspace.config(from((workspace / "alone").string(), few)), "--run-dir",
               (workspace / "next").string()});
  EXPECT_EQ(next.exit_code, 0) << next;
}

TEST(GivenModel, AChangedLengthIsSaid) {
  const Workspace workspace;
  for (const auto& [length, part] :
       {std::pair{32, "the model is trained on rows up to 32"},
        std::pair{128, "positions from 64 on are new to the weights"}}) {
    const std::string config =
        workspace.config(from(kHf, {{"sequence", {{"max_length", length}}}}));
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"plan", config},
          std::vector<std::string>{"train", config, "--dry-run"}}) {
      const ProcessResult result = lmtrain(command);
      EXPECT_EQ(result.exit_code, 0) << result;
      EXPECT_NE(result.err.find("warning: max_position_embeddings of init_from is 64"),
                std::string::npos)
          << result;
      EXPECT_NE(result.err.find(part), std::string::npos) << result;
    }
  }
  const ProcessResult same = lmtrain({"plan", workspace.config(from(kHf))});
  EXPECT_EQ(same.err.find("max_position_embeddings"), std::string::npos) << same;
}

// Its best valid checkpoint is taken, named, and kept in the config; the newest where no evaluation
// of a valid one says which is the best.
TEST(GivenModel, OfARunTheBestValidCheckpointIsTaken) {
  const Reference& first = reference();
  const RunDir source = first.run.copy(first.fresh("source"));
  flip_bit(source.newest_checkpoint() / "model.safetensors", -1);
  const fs::path expected = source.checkpoint(*(source.checkpoint_steps().rbegin() + 1));
  const std::string config = first.workspace.config(
      {{"init_from", source.path()}, {"model", nullptr}, {"tokenizer", nullptr}}, "of a run.json");
  const RunDir run(first.fresh("from a run"));
  const ProcessResult result = lmtrain({"train", config, "--run-dir", run.path()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("damaged checkpoint passed over"), std::string::npos) << result;
  EXPECT_NE(result.err.find("the newest that is whole: " + expected.string()), std::string::npos)
      << result;
  const Json kept = Json::parse(read_text(run.folder() / "config.json"));
  EXPECT_EQ(kept.at("init_from"), expected.string());
  EXPECT_EQ(kept.at("tokenizer").at("model"), (expected / "tokenizer.model").string());
}

}  // namespace
}  // namespace lmtrain::testing
