#include "report/run_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/support.h"

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

}  // namespace
}  // namespace lmtrain
