#include "report/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/support.h"
#include "config/digest.h"

namespace lmtrain {
namespace {

using testing::TemporaryFolder;

RunEvents events_of(const std::string& text) {
  const TemporaryFolder folder;
  testing::replace_file(folder / "events.jsonl", text);
  return read_run_events(folder / "events.jsonl");
}

TEST(RunEvents, SaysWhatHappenedAndLeavesOutRoutine) {
  const RunEvents events = events_of(
      R"({"time":"2026-11-21T10:47:00.032Z","event":"start","step":0,"batch":0,"reason":"","device":"cpu","precision":"bf16"}
{"time":"2026-11-21T10:47:01.000Z","event":"save","step":3,"batch":3,"reason":"","seconds":0.1,"peak_memory":5000}
{"time":"2026-11-21T10:47:02.000Z","event":"skip","step":7,"batch":8,"reason":"the loss is not finite","skipped_batch":8,"seq_len":64,"loss":null,"documents":[1,2,3],"tensor":"model.norm.weight"}
{"time":"2026-11-21T10:47:03.000Z","event":"rollback","step":3,"batch":9,"reason":"spike","from_step":9}
{"time":"2026-11-21T10:47:04.000Z","event":"resume","step":3,"batch":9,"reason":"","device":"cuda","precision":"fp16","changed":[{"key":"optimizer.lr","was":0.003,"is":0.001}]}
{"time":"2026-11-21T10:47:05.000Z","event":"end","step":12,"batch":19,"reason":"signal 15","peak_memory":4000}
{"time":"2026-11-21T10:47:06.000Z","event":"end","step":20,"batch":29,"reason":"done","peak_memory":4500}
)");
  ASSERT_EQ(events.events.size(), 4U);
  const RunEvent& skip = events.events[0];
  EXPECT_EQ(skip.kind, "skip");
  EXPECT_EQ(skip.step, 7);
  EXPECT_EQ(skip.time, "2026-11-21T10:47:02.000Z");
  EXPECT_EQ(skip.text, "the loss is not finite, batch 8, length 64, tensor model.norm.weight");
  // A rollback stands where the run was.
  EXPECT_EQ(events.events[1].step, 9);
  EXPECT_EQ(events.events[1].text, "spike, from step 9, back to step 3");
  EXPECT_EQ(events.events[2].text, "optimizer.lr from 0.003 to 0.001");
  EXPECT_EQ(events.events[3].text, "signal 15");
  EXPECT_EQ(events.counts.at("save"), 1);
  EXPECT_EQ(events.device, "cuda");
  EXPECT_EQ(events.precision, "fp16");
  EXPECT_EQ(events.peak_memory, 5000);
}

TEST(RunEvents, ABranchsStartIsNoRoutine) {
  const RunEvents events =
      events_of("{\"event\":\"start\",\"step\":12,\"reason\":\"branch of /runs/a\"}\n");
  ASSERT_EQ(events.events.size(), 1U);
  EXPECT_EQ(events.events[0].text, "branch of /runs/a");
}

TEST(RunEvents, ManyOfAKindAreThinnedOutAndCounted) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "{\"event\":\"skip\",\"step\":" + std::to_string(i) + ",\"reason\":\"loss_scale\"}\n";
  text += "{\"event\":\"end\",\"step\":1000,\"reason\":\"max_time\"}\n";
  const RunEvents events = events_of(text);
  ASSERT_EQ(events.events.size(), kMostEventsOfAKind + 1);
  EXPECT_EQ(events.events.front().step, 0);
  EXPECT_EQ(events.events[kMostEventsOfAKind - 1].step, 999);
  EXPECT_EQ(events.events.back().kind, "end");
  EXPECT_EQ(events.counts.at("skip"), 1000);
}

TEST(RunEvents, SamplesAreListedByStepEachOnce) {
  const auto sample = [](int step, const char* prompt, const char* text) {
    return nlohmann::json({{"event", "sample"}, {"step", step}, {"prompt", prompt}, {"text", text}})
               .dump() +
           "\n";
  };
  const RunEvents events =
      events_of(sample(0, "a", "x") + sample(20, "a", "before") + sample(10, "a", "y") +
                sample(10, "b", "z") + sample(20, "a", "after"));
  EXPECT_TRUE(events.events.empty());
  ASSERT_EQ(events.samples.size(), 4U);
  EXPECT_EQ(events.samples[0].text, "x");
  EXPECT_EQ(events.samples[1].text, "y");
  EXPECT_EQ(events.samples[2].prompt, "b");
  EXPECT_EQ(events.samples[3].text, "after") << "a resume has written it again";
}

TEST(RunEvents, DamagedLinesAndLongReasonsDoNoHarm) {
  const RunEvents events = events_of(
      "{\"event\":7}\n{\"event\":\"resume\",\"changed\":[1,{\"key\":2}],\"step\":null}\nnonsense\n"
      "{\"event\":\"end\",\"step\":1,\"reason\":\"" +
      std::string(100000, 'x') + "\"}\n{\"event\":\"end\"");
  ASSERT_EQ(events.events.size(), 2U);
  EXPECT_EQ(events.events[0].kind, "resume");
  EXPECT_LT(events.events[1].text.size(), 400U);
  const TemporaryFolder folder;
  EXPECT_TRUE(read_run_events(folder / "missing").events.empty());
}

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

using Labels = std::vector<std::string>;

TEST(RunLabels, TheFolderNameIsEnoughWhereItDiffers) {
  EXPECT_EQ(run_labels({"/runs/a", "/runs/b"}), (Labels{"a", "b"}));
  EXPECT_EQ(run_labels({"/runs/a"}), Labels{"a"});
}

TEST(RunLabels, RunsOfOneNameAreToldApartByTheFoldersAround) {
  EXPECT_EQ(run_labels({"/x/tiny", "/y/tiny", "/y/other"}), (Labels{"x/tiny", "y/tiny", "other"}));
  EXPECT_EQ(run_labels({"/p/x/tiny", "/q/x/tiny", "/r/tiny"}),
            (Labels{"p/x/tiny", "q/x/tiny", "r/tiny"}));
  // One path ends another.
  EXPECT_EQ(run_labels({"/tiny", "/a/tiny"}), (Labels{"tiny", "a/tiny"}));
  EXPECT_EQ(run_labels({"/"}), Labels{"/"});
}

TEST(RunLabels, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(run_labels({"/runs/a\xff"}), Labels{"a\xEF\xBF\xBD"});
}

}  // namespace

}  // namespace lmtrain
