#include "training/eval_data.h"

#include "base/support.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

// A location in a run with this section `data`.
ModelLocation location_in(const TemporaryFolder& folder, const std::string& data) {
  const RunFolder run(folder.path());
  write_run_config(run, parse_config(R"({"name": "x", "data": )" + data + "}", "x.json", {}), 0);
  return {run.checkpoint(5), run.path()};
}

TEST(EvalData, IsARunsAlone) {
  const std::string message = error_of(ErrorKind::kUsage, [] {
    eval_data_of({"/models/llama", std::nullopt}, 1);
  });
  EXPECT_EQ(message,
            "/models/llama has no held-out text of its own; give documents with --data PATH");
}

TEST(EvalData, OtherTextIsReadAsTheRunsOwn) {
  const TemporaryFolder folder;
  const DataConfig reading = text_reading_of(
      location_in(folder, R"({"train": ["/corpus"], "format": "jsonl", "text_field": "content"})"));
  EXPECT_EQ(
      reading.format,
      parse_config(R"({"data": {"train": ["/a"], "format": "jsonl"}})", "x.json", {}).data.format);
  EXPECT_EQ(reading.text_field, "content");
}

TEST(EvalData, WithoutARunTheDefaultsSayHowTextIsRead) {
  EXPECT_EQ(text_reading_of({"/models/llama", std::nullopt}), DataConfig());
}

// Token ids say nothing about text.
TEST(EvalData, ARunOnTokenIdsReadsNoText) {
  const TemporaryFolder folder;
  const ModelLocation location = location_in(
      folder,
      R"({"train": ["/ids"], "format": "tokens"}, "tokenizer": {"model": "/t/tokenizer.model"})");
  EXPECT_EQ(text_reading_of(location).format, DataConfig().format);
}

}  // namespace
}  // namespace lmtrain
