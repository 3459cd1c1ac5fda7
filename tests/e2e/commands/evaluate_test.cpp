// `lmtrain eval` gives transformers' token-weighted loss (tests/reference/eval), whatever the
// batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "e2e/references.h"
#include "e2e/tamper.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = LMTRAIN_SOURCE_DIR "/tests/reference/eval";

Json golden(int64_t max_length) {
  const Json all = Json::parse(read_text(kFolder / "golden.json"));
  return all.at("max_length").at(std::to_string(max_length));
}

Json evaluate(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"eval"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.emplace_back("--json");
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result;
  return Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
}

void expect_near(const Json& actual, const Json& expected, const std::string& what) {
  for (const char* field : {"loss", "perplexity", "bits_per_byte"}) {
    const double value = expected.at(field);
    EXPECT_LT(std::abs(actual.at(field).get<double>() - value) / std::max(1.0, value), 1e-5)
        << what << ": " << field << " " << actual.at(field) << " instead of " << value;
  }
  for (const char* field : {"tokens", "bytes", "documents"}) {
    EXPECT_EQ(actual.at(field), expected.at(field)) << what << ": " << field;
  }
}

TEST(Evaluate, IsTransformersLossWhateverTheBatch) {
  for (const char* model : {"hf", "hf_sharded"}) {
    for (const int64_t max_length : {16, 64}) {
      const Json expected = golden(max_length);
      for (const char* batch : {"16", "64", "8192"}) {
        const std::string target = (kFolder / model).string();
        const Json result =
            evaluate({target, "--data", (kFolder / "documents").string(), "--max-length",
                      std::to_string(max_length), "--batch-tokens", batch});
        const std::string what =
            std::string(model) + " " + std::to_string(max_length) + " " + batch;
        ASSERT_TRUE(result.is_object()) << what;
        EXPECT_EQ(
            field_names(result),
            (std::vector<std::string>{"loss", "perplexity", "bits_per_byte", "tokens", "bytes",
                                      "documents", "target", "precision", "checkpoint", "step"}));
        EXPECT_EQ(result.at("checkpoint"), target);
        EXPECT_TRUE(result.at("step").is_null()) << "no checkpoint";
        EXPECT_EQ(result.at("precision"), "fp32");
        EXPECT_EQ(result.at("target"), target);
        expect_near(result, expected, what);
      }
    }
  }
}

TEST(Evaluate, AFileWithoutTextIsRefused) {
  const std::filesystem::path empty = reference().fresh("empty.txt");
  std::ofstream(empty).close();
  const ProcessResult result = lmtrain({"eval", reference().run.path(), "--data", empty});
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_NE(result.err.find("all documents are empty"), std::string::npos) << result;
}

TEST(Evaluate, AnEndlessLengthIsRefused) {
  const ProcessResult refused =
      lmtrain({"eval", (kFolder / "hf").string(), "--data", (kFolder / "documents").string(),
               "--max-length", "9223372036854775807"});
  EXPECT_EQ(refused.exit_code, 2) << refused;
  EXPECT_NE(refused.err.find("--max-length"), std::string::npos) << refused;
}

TEST(Evaluate, ReadsJsonLinesAndSeveralPaths) {
  const std::string hf = (kFolder / "hf").string();
  const Json lines =
      evaluate({hf, "--data", (kFolder / "documents.jsonl").string(), "--max-length", "64"});
  expect_near(lines, golden(64), "documents.jsonl");

  std::vector<std::string> command = {hf, "--max-length", "64"};
  std::vector<std::string> files;
  for (const auto& file : fs::directory_iterator(kFolder / "documents")) {
    files.push_back(file.path());
  }
  for (const std::string& file : files) command.insert(command.end(), {"--data", file});
  expect_near(evaluate(command), golden(64), "one --data a file");

  ProcessOptions two_threads;
  two_threads.env["OMP_NUM_THREADS"] = "2";
  const ProcessResult result = lmtrain(
      {"eval", hf, "--data", (kFolder / "documents").string(), "--max-length", "64", "--json"},
      two_threads);
  expect_near(Json::parse(result.out), golden(64), "two threads");
}

TEST(Evaluate, TextIsForPeople) {
  const ProcessResult result = lmtrain({"eval", (kFolder / "hf").string(), "--data",
                                        (kFolder / "documents").string(), "--max-length", "64"});
  EXPECT_EQ(result.exit_code, 0) << result;
  for (const char* word : {"loss", "perplexity", "bits per byte", "tokens"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << result;
  }
}

// What training said at its end is what eval says of the run, of its checkpoint, and of a copy of
// that as a plain HF folder.
void expect_eval_of_run(const Reference& of) {
  const Json last = of.run.metrics().back();
  ASSERT_TRUE(last.contains("eval_loss"));
  const Json result = evaluate({of.run.path()});
  EXPECT_NEAR(result.at("loss"), last.at("eval_loss").get<double>(), 1e-5);
  EXPECT_NEAR(result.at("bits_per_byte"), last.at("eval_bits_per_byte").get<double>(), 1e-5);
  EXPECT_NEAR(of.run.status().at("eval_loss"), last.at("eval_loss").get<double>(), 1e-12);

  const Json of_checkpoint = evaluate({of.run.newest_checkpoint().string()});
  EXPECT_EQ(of_checkpoint.at("loss"), result.at("loss"));
  for (const Json& one : {result, of_checkpoint}) {
    EXPECT_EQ(one.at("step"), last.at("step"));
    EXPECT_EQ(one.at("checkpoint"), of.run.newest_checkpoint().string());
  }

  const fs::path plain = of.fresh("plain");
  fs::copy(of.run.newest_checkpoint(), plain);
  for (const char* file : {"manifest.json", "state.json", "optimizer.safetensors"}) {
    fs::remove(plain / file);
  }
  const Json config = Json::parse(read_text(of.run.folder() / "config.json"));
  if (config.at("data").at("eval").is_null()) return;
  const Json of_plain = evaluate({plain.string(), "--data", "data/sample.jsonl"});
  EXPECT_EQ(of_plain.at("loss"), result.at("loss"));
}

TEST(Evaluate, OfARunIsItsLastEvaluation) { expect_eval_of_run(reference()); }

TEST(Evaluate, OfARunWithHeldOutTextAndPrecisionAuto) {
  expect_eval_of_run(
      reference({{"precision", "auto"},
                 {"data", {{"eval", nullptr}, {"eval_fraction", 0.3}}},
                 {"eval", {{"tokens", 500}}},
                 {"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 450}}}}}}));
}

// The figures of sets are those of the run's last evaluation, and of eval on each set's files.
void expect_eval_of_sets(const Reference& of, const std::vector<std::string>& names) {
  const Json last = of.run.metrics().back();
  const Json result = evaluate({of.run.path()});
  ASSERT_EQ(result.at("sets").size(), names.size());
  int64_t tokens = 0;
  for (const std::string& name : names) {
    const Json& set = result.at("sets").at(name);
    EXPECT_NEAR(set.at("loss"), last.at("eval_loss/" + name).get<double>(), 1e-5) << name;
    EXPECT_NEAR(set.at("perplexity"), last.at("eval_perplexity/" + name).get<double>(), 1e-2);
    EXPECT_NEAR(set.at("bits_per_byte"), last.at("eval_bits_per_byte/" + name).get<double>(), 1e-5);
    tokens += set.at("tokens").get<int64_t>();
  }
  EXPECT_EQ(result.at("tokens"), tokens);
  const ProcessResult text = lmtrain({"eval", of.run.path()});
  for (const std::string& name : names)
    EXPECT_NE(text.out.find("set            " + name + "  loss "), std::string::npos) << text;
}

TEST(Evaluate, OfARunWithNamedSets) {
  const Json sets = {{"lines", "data/sample.jsonl"}, {"files", {"data/sample"}}};
  const Reference& of = reference({{"data", {{"eval", sets}}}});
  expect_eval_of_sets(of, {"lines", "files"});
  const Json result = evaluate({of.run.path()});
  const Json alone = evaluate({of.run.newest_checkpoint().string(), "--data", "data/sample.jsonl"});
  EXPECT_FALSE(alone.contains("sets"));
  EXPECT_EQ(result.at("sets").at("lines").at("tokens"), alone.at("tokens"));
  EXPECT_NEAR(result.at("sets").at("lines").at("loss"), alone.at("loss").get<double>(), 1e-5);
}

TEST(Evaluate, OfARunOnSeveralSources) {
  const Json data = {{"train", {"data/sample/*.py", "data/sample.jsonl"}},
                     {"eval", nullptr},
                     {"eval_fraction", 0.3}};
  expect_eval_of_sets(reference({{"data", data}}), {"sample", "sample.jsonl"});
}

// Optimizer and state are not needed to evaluate.
TEST(Evaluate, NeedsNoTrainingState) {
  const RunDir run = reference().run.copy(reference().fresh("no state"));
  fs::remove(run.newest_checkpoint() / "optimizer.safetensors");
  const ProcessResult result = lmtrain({"eval", run.path(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err.find("damaged"), std::string::npos) << result;
}

TEST(Evaluate, TakesAnOlderCheckpointWhenTheNewestIsDamaged) {
  const RunDir run = reference().run.copy(reference().fresh("damaged"));
  flip_bit(run.newest_checkpoint() / "model.safetensors", -1);
  const ProcessResult result = lmtrain({"eval", run.path(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("warning: "), std::string::npos) << result;
  EXPECT_NE(result.err.find(run.newest_checkpoint().string()), std::string::npos) << result;
  const Json older = evaluate({run.checkpoint(39).string()});
  EXPECT_EQ(Json::parse(result.out).at("loss"), older.at("loss"));
}

// One document, of which blocks are held out.
TEST(Evaluate, OfARunOnOneFile) {
  const Workspace workspace;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * i) + " of the file\n";
  const std::string config = workspace.config(
      {{"data", {{"train", {workspace.write("input.txt", text)}}, {"eval", nullptr}}}});
  const RunDir run = train(config, workspace / "run");
  EXPECT_TRUE(run.status().at("eval_loss").is_number());
  EXPECT_NEAR(evaluate({run.path()}).at("loss").get<double>(),
              run.status().at("eval_loss").get<double>(), 1e-5);
}

TEST(Evaluate, RunOnASingleBlockSaysWhyNothingIsHeldOut) {
  const Workspace workspace;
  const std::string path = workspace.write("one.txt", "a single short document, and nothing else");
  const ProcessResult trained =
      lmtrain({"train", workspace.config({{"data", {{"train", {path}}, {"eval", nullptr}}}}),
               "--run-dir", (workspace / "run").string()});
  EXPECT_EQ(trained.exit_code, 0) << trained;
  EXPECT_NE(trained.err.find("data.train is one short text"), std::string::npos) << trained;
  EXPECT_EQ(trained.err.find("data.eval_fraction is 0"), std::string::npos) << trained;
}

TEST(Evaluate, RunWithoutHeldOutTextTrainsAndAsksForData) {
  const Workspace workspace;
  const std::string config =
      workspace.config({{"data", {{"eval", nullptr}, {"eval_fraction", 0}}}});
  const RunDir run(workspace / "run");
  const ProcessResult trained = lmtrain({"train", config, "--run-dir", run.path()});
  EXPECT_EQ(trained.exit_code, 0) << trained;
  const size_t warning = trained.err.find("evaluations are skipped");
  EXPECT_NE(warning, std::string::npos) << trained;
  EXPECT_EQ(trained.err.find("evaluations are skipped", warning + 1), std::string::npos)
      << "more than one warning\n"
      << trained;
  EXPECT_TRUE(run.status().at("eval_loss").is_null());
  const ProcessResult evaluated = lmtrain({"eval", run.path()});
  EXPECT_EQ(evaluated.exit_code, 2) << evaluated;
  EXPECT_NE(evaluated.err.find("--data"), std::string::npos) << evaluated;
}

}  // namespace
}  // namespace lmtrain::testing
