#include "report/run_record.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/support.h"
#include "config/digest.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class RunRecordTest : public ::testing::Test {
 protected:
  RunFiles files() const {
    const fs::path path = folder_.path();
    return {path, path / "config.json", path / "status.json", path / "metrics.jsonl",
            path / "events.jsonl"};
  }
  void write(const std::string& name, const std::string& text) const {
    testing::replace_file(folder_ / name, text);
  }
  void write_updates(int count) const {
    std::string text;
    for (int i = 1; i <= count; ++i)
      text += "{\"step\":" + std::to_string(i) + ",\"tokens\":" + std::to_string(10 * i) +
              ",\"loss\":" + std::to_string(i) + ",\"seq_len\":8,\"elapsed\":2.5}\n";
    write("metrics.jsonl", text);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(RunRecordTest, ReadsAllThatTheFolderSays) {
  write("config.json", sealed_text({{"seed", 3}, {"identity", {{"run", "x"}}}}));
  write("status.json",
        "{\"state\":\"done\",\"updated\":\"2026-11-21T10:47:32.730Z\",\"checkpoint\":\"/c\"}\n");
  write_updates(300);
  const RunRecord run = read_run_record(files(), 100);
  EXPECT_EQ(run.settings, nlohmann::json({{"seed", 3}}));  // without digest and identity
  EXPECT_EQ(run.state, "done");
  EXPECT_EQ(run.checkpoint, "/c");
  EXPECT_EQ(run.step, 300);
  EXPECT_EQ(run.tokens, 3000);
  EXPECT_EQ(run.elapsed, 2.5);
  EXPECT_EQ(run.loss, 299);  // the mean of the last three
  EXPECT_EQ(run.curves.step.size(), 100U);
  EXPECT_TRUE(run.notes.empty());
  EXPECT_FALSE(final_held_out_loss(run).has_value());
}

TEST_F(RunRecordTest, TheBestCheckpointIsOneThatIsThere) {
  write("config.json", "{\"seed\": 3}");
  std::string text;
  for (const char* line : {R"({"step":0,"eval_loss":9.0})", R"({"step":10,"eval_loss":3.0})",
                           R"({"step":20,"eval_loss":3.5})", R"({"step":30,"eval_loss":4.0})"})
    text += std::string(line) + "\n";
  write("metrics.jsonl", text);
  EXPECT_EQ(read_run_record(files(), 100).best_checkpoint, "");
  for (const char* step : {"step_00000020", "step_00000030"})
    fs::create_directories(folder_ / "checkpoints" / step);
  EXPECT_EQ(read_run_record(files(), 100).best_checkpoint,
            (folder_ / "checkpoints/step_00000020").string());
}

TEST_F(RunRecordTest, ARunThatHasJustBegunIsARecordToo) {
  write("config.json", "{\"seed\": 3}");
  const RunRecord run = read_run_record(files(), 100);
  EXPECT_EQ(run.step, 0);
  EXPECT_TRUE(std::isnan(run.loss));
  EXPECT_EQ(run.state, "");
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(run.notes[0], "there is no update in metrics.jsonl yet");
}

TEST_F(RunRecordTest, DamageIsNotedAndEndsNothing) {
  std::string config = sealed_text({{"seed", 3}});
  config.replace(config.find('3'), 1, "4");
  write("config.json", config);
  write("status.json", "{\"state\":\"do");
  write_updates(1);
  RunRecord run = read_run_record(files(), 100);
  ASSERT_EQ(run.notes.size(), 2U);
  EXPECT_NE(run.notes[0].find("changed after lmtrain wrote it"), std::string::npos);
  EXPECT_NE(run.notes[1].find("status.json is damaged"), std::string::npos);
  EXPECT_EQ(run.settings.at("seed"), 4);
  write("config.json", "{");
  run = read_run_record(files(), 100);
  EXPECT_NE(run.notes[0].find("config.json is damaged"), std::string::npos);
  EXPECT_TRUE(run.settings.empty());
}

TEST_F(RunRecordTest, SeveralAreReadInTheirOrderAndAnErrorIsThrown) {
  write("config.json", "{}");
  write_updates(2);
  std::vector<RunFiles> several(5, files());
  for (size_t i = 0; i < several.size(); ++i) several[i].folder = std::to_string(i);
  const std::vector<RunRecord> runs = read_run_records(several, 100);
  ASSERT_EQ(runs.size(), 5U);
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].folder, std::to_string(i));
    EXPECT_EQ(runs[i].step, 2);
  }
  several[3].metrics = folder_.path();
  testing::error_of(ErrorKind::kData, [&] { read_run_records(several, 100); });
}

}  // namespace
}  // namespace lmtrain
