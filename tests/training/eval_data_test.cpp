#include "training/eval_data.h"

#include "base/file.h"
#include "base/support.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"
#include "runlog/data_files.h"

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

// The cache would be made anew, below a file; it is not come to.
TEST(EvalData, ChangedTextIsRefusedBeforeItIsPreparedAndTheAdviceNamesData) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a.txt", "text");
  const ModelLocation location =
      location_in(folder, R"({"train": [")" + (folder / "a.txt").string() +
                              R"("], "cache_dir": ")" + (folder / "a.txt").string() + "\"}");
  record_data_files(RunFolder(folder.path()), read_run_config(RunFolder(folder.path())).config);
  write_file_atomic(folder / "a.txt", "longer text");
  const std::string message = error_of(ErrorKind::kData, [&] { eval_data_of(location, 1); });
  for (const char* part : {"the data of the run has changed: ", "a.txt has 11 bytes and had 4",
                           "; or give other documents with --data PATH"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
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
