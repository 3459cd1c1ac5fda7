// Arrow's libraries and libtorch in one process: training from tables.
#include <gtest/gtest.h>

#include "base/text.h"
#include "corpus/arrow_files.h"
#include "e2e/workspace.h"

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
}

}  // namespace
}  // namespace lmtrain::testing
