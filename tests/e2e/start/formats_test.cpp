// Arrow's libraries and libtorch in one process: training from tables.
#include <gtest/gtest.h>

#include "base/text.h"
#include "e2e/workspace.h"
#include "text/arrow_files.h"

namespace lmtrain::testing {
namespace {

TEST(Formats, TrainingFromTablesIsTrainingFromJsonLines) {
  const Workspace workspace;
  Rows rows;
  std::string json;
  for (int i = 0; i < 300; ++i) {
    const std::string text = str("def f", i, "(x):\n    return x * ", i, "\n");
    json += Json({{"text", text}}).dump() + "\n";
    rows.emplace_back(text);
  }
  const auto table = table_of(rows);
  const auto losses = [&](const std::string& name, const std::string& bytes) {
    const std::string path = workspace.write(name, bytes);
    const std::string run = (workspace / (name + ".run")).string();
    const std::string config = workspace.config({{"data", {{"train", {path}}, {"format", "auto"}}},
                                                 {"train", {{"steps", 5}, {"tokens", nullptr}}}});
    const ProcessResult result = lmtrain({"train", config, "--run-dir", run});
    EXPECT_EQ(result.exit_code, 0) << result;
    std::vector<double> values;
    for (const Json& line : RunDir(run).metrics()) {
      if (line.contains("loss")) values.push_back(line.at("loss").get<double>());
    }
    return values;
  };
  const std::vector<double> expected = losses("a.jsonl", json);
  EXPECT_EQ(expected.size(), 5U);
  EXPECT_EQ(losses("a.jsonl.zst", compressed(json, Compression::kZstd)), expected);
  EXPECT_EQ(losses("a.parquet", parquet_bytes(*table)), expected);
  EXPECT_EQ(losses("a.arrow", arrow_stream_bytes(*table)), expected);
  EXPECT_EQ(losses("c4-train.00000-of-01024.json.gz", compressed(json, Compression::kGzip)),
            expected);
}

ProcessResult prepare(const Workspace& workspace, const Json& data) {
  return lmtrain({"prepare", workspace.config({{"data", data}})});
}

// `count` JSON lines.
std::string json_lines(int count) {
  std::string json;
  for (int i = 0; i < count; ++i)
    json += Json({{"text", str("def f", i, "(x):\n    return x * ", i, "\n")}}).dump() + "\n";
  return json;
}

TEST(Formats, APreparationSaysWhatItReadHow) {
  const Workspace workspace;
  workspace.write("mixed/a.json", json_lines(30));
  workspace.write("mixed/b.txt", "def g(x):\n    return x\n");
  const ProcessResult result =
      prepare(workspace, {{"train", {(workspace / "mixed").string()}}, {"format", "auto"}});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("1 file as jsonl (30 documents), 1 file as text (1 document)"),
            std::string::npos)
      << result;
}

TEST(Formats, WhatIsNoTextIsRefusedWithItsName) {
  const Workspace workspace;
  workspace.write("set/a.json", "[{\"body\": \"a\"}]");
  workspace.write("set/b.csv", "body\na\n");
  const ProcessResult result =
      prepare(workspace, {{"train", {(workspace / "set").string()}}, {"format", "auto"}});
  EXPECT_EQ(result.exit_code, 2) << result;
  for (const char* part :
       {"/data/train/0: 2 files of 2", "a.json (a JSON array", "b.csv", "one object a line"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result;
}

// 128 KiB of gzip that become a document of 128 MiB.
TEST(Formats, ADocumentWithoutEndIsRefusedWithItsName) {
  const Workspace workspace;
  const std::string member = compressed(std::string(64 << 20, 'a'), Compression::kGzip);
  std::string members;
  for (int i = 0; i < 2; ++i) members += member;
  const std::string path = workspace.write("endless.txt.gz", members);
  const ProcessResult result =
      prepare(workspace, {{"train", {path}}, {"eval", nullptr}, {"max_document", "100MB"}});
  EXPECT_EQ(result.exit_code, 3) << result;
  for (const std::string& part : {path, std::string("data.max_document")})
    EXPECT_NE(result.err.find(part), std::string::npos) << result;
  EXPECT_EQ(result.err.find("micro_tokens"), std::string::npos) << result;
}

// What `datasets` saves of a DatasetDict: nothing but the rows of one split is trained on.
TEST(Formats, OfASavedDatasetDictOneSplitIsTrainedOn) {
  const Workspace workspace;
  const auto save = [&](const std::string& split, int rows) {
    Rows texts;
    for (int i = 0; i < rows; ++i) texts.emplace_back(str(split, " def f", i, "(): return ", i));
    const std::string folder = "dict/" + split + "/";
    workspace.write(folder + "data-00000-of-00001.arrow", arrow_stream_bytes(*table_of(texts)));
    workspace.write(folder + "dataset_info.json", "{\n  \"features\": {}\n}");
    workspace.write(folder + "state.json",
                    "{\n  \"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}]\n}");
  };
  save("train", 50);
  save("test", 20);
  workspace.write("dict/dataset_dict.json", R"({"splits": ["train", "test"]})");
  const Json train = {(workspace / "dict").string()};
  const ProcessResult result = prepare(workspace, {{"train", train}, {"format", "auto"}});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("splits train, test; train is taken"), std::string::npos) << result;
  EXPECT_NE(result.err.find("1 file as arrow (50 documents)"), std::string::npos) << result;
  const ProcessResult both =
      prepare(workspace, {{"train", train}, {"eval", train}, {"format", "auto"}});
  EXPECT_EQ(both.exit_code, 0) << both;
  EXPECT_NE(both.err.find("1 file as arrow (20 documents)"), std::string::npos) << both;
}

TEST(Formats, EvaluationReadsByTheSameRules) {
  const Workspace workspace;
  const std::string text = workspace.write("a.txt", json_lines(40));
  const RunDir run = train(workspace.config({{"data", {{"train", {text}}, {"format", "lines"}}},
                                             {"train", {{"steps", 5}, {"tokens", nullptr}}}}),
                           workspace / "run");
  const auto evaluate = [&](const std::vector<std::string>& options) {
    std::vector<std::string> command = {"eval", run.path(), "--json"};
    command.insert(command.end(), options.begin(), options.end());
    return lmtrain(command);
  };
  const auto documents = [&](const std::vector<std::string>& options) {
    const ProcessResult result = evaluate(options);
    EXPECT_EQ(result.exit_code, 0) << result;
    return Json::parse(result.out).at("documents").get<int>();
  };
  const std::string body = workspace.write("body.json", R"({"body": "x y z"})");
  EXPECT_EQ(documents({"--data", text}), 40) << "the run's own format";
  EXPECT_EQ(documents({"--data", text, "--format", "text"}), 1);
  EXPECT_EQ(documents({"--data", text, "--format", "auto"}), 40);
  EXPECT_EQ(documents({"--data", body, "--format", "auto", "--text-field", "body"}), 1);
  // What was typed is what an error speaks of.
  const ProcessResult wrong =
      evaluate({"--data", body, "--format", "jsonl", "--text-field", "bdy"});
  EXPECT_EQ(wrong.exit_code, 3) << wrong;
  EXPECT_NE(wrong.err.find("--text-field"), std::string::npos) << wrong;
  EXPECT_EQ(wrong.err.find("data.text_field"), std::string::npos) << wrong;
  const std::string bad = workspace.write("bad.jsonl", "{\"text\": \"a b\"}\nno object\n");
  const ProcessResult skipless = evaluate({"--data", bad, "--format", "jsonl"});
  EXPECT_EQ(skipless.exit_code, 3) << skipless;
  EXPECT_NE(skipless.err.find("bad.jsonl:2: not JSON at column 1"), std::string::npos) << skipless;
  EXPECT_EQ(skipless.err.find("on_bad_line"), std::string::npos) << skipless;
  const auto refused = [&](const std::vector<std::string>& options, const char* part) {
    const ProcessResult result = evaluate(options);
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_NE(result.err.find(part), std::string::npos) << result;
  };
  const ProcessResult large = evaluate({"--data", text, "--max-document", "5B"});
  EXPECT_EQ(large.exit_code, 3) << large;
  EXPECT_NE(large.err.find("a line of more than 5 B (--max-document)"), std::string::npos) << large;
  refused({"--data", text, "--max-document", "0B"}, "512MB");
  refused({"--data", body, "--format", "auto"}, "--format text");
  refused({"--data", text, "--format", "tokens"}, "eval reads text");
  refused({"--format", "text"}, "--data");
  refused({"--max-document", "1GiB"}, "--data");
}

}  // namespace
}  // namespace lmtrain::testing
