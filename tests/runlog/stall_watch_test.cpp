// What hangs is told once, by its name; what only takes long is not.
#include "runlog/stall_watch.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

RunningActivity activity(uint64_t number, double seconds, double longest = 0) {
  return {number, "syncing", "/runs/a/model.safetensors", seconds, longest};
}

TEST(StallFinder, TellsOnceWhatHangsAndOnceThatItIsOver) {
  StallFinder finder(600);
  EXPECT_TRUE(finder.look({activity(1, 599)}).empty());
  const std::vector<Stall> found = finder.look({activity(1, 601, 2)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].over);
  EXPECT_EQ(found[0].what(), "syncing /runs/a/model.safetensors");
  const std::string text = found[0].text();
  EXPECT_NE(text.find("syncing /runs/a/model.safetensors for 10m01s, since 2"), std::string::npos)
      << text;
  EXPECT_NE(text.find("the longest before took 2s"), std::string::npos) << text;
  EXPECT_TRUE(finder.look({activity(1, 700, 2)}).empty()) << "told twice";

  const std::vector<Stall> over = finder.look({});
  ASSERT_EQ(over.size(), 1U);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(over[0].text(),
            "the run goes on: syncing /runs/a/model.safetensors took 11m40s or more");
  EXPECT_TRUE(finder.look({}).empty());
}

TEST(StallFinder, WaitsTenTimesAsLongAsTheLongestOfItsKindTook) {
  StallFinder finder(600);
  EXPECT_TRUE(finder.look({activity(1, 899, 90)}).empty());
  EXPECT_EQ(finder.look({activity(1, 900, 90)}).size(), 1U);
}

TEST(StallFinder, WhatGetsFurtherDoesNotHang) {
  StallFinder finder(600);
  EXPECT_EQ(finder.look({activity(1, 650)}).size(), 1U);
  const std::vector<Stall> over = finder.look({activity(1, 3, 651)});
  ASSERT_EQ(over.size(), 1U);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(finder.look({activity(1, 6600, 651)}).size(), 1U) << "it hangs again";
}

TEST(StallFinder, TellsTwoThatHangAtOnce) {
  StallFinder finder(600);
  EXPECT_EQ(
      finder.look({{1, "waiting for the checkpoint", "step_00000010", 700, 1}, activity(2, 650)})
          .size(),
      2U);
}

}  // namespace
}  // namespace lmtrain
