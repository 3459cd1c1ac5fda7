#include "base/progress.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(ProgressLine, GivesUpPartsInTheirOrder) {
  const std::vector<LinePart> parts = {
      {"step 7", 0}, {"loss 5.1", 1}, {"lr 1e-3", 3}, {"9 tokens/s", 2}, {"14m left", 0}};
  EXPECT_EQ(whole_line(parts), "step 7  loss 5.1  lr 1e-3  9 tokens/s  14m left");
  EXPECT_EQ(fitted_line(parts, 47), whole_line(parts));
  EXPECT_EQ(fitted_line(parts, 46), "step 7  loss 5.1  9 tokens/s  14m left");
  EXPECT_EQ(fitted_line(parts, 38), "step 7  loss 5.1  9 tokens/s  14m left");
  EXPECT_EQ(fitted_line(parts, 37), "step 7  loss 5.1  14m left");
  EXPECT_EQ(fitted_line(parts, 20), "step 7  14m left");
  EXPECT_EQ(fitted_line(parts, 5), "step ");
  EXPECT_EQ(fitted_line({}, 5), "");
}

TEST(ProgressLine, WideLinesAreBrokenBeforeWords) {
  const std::string line =
      "evaluation about 20 times on 52.1K held-out tokens, together about 10 % of the run";
  EXPECT_EQ(wrapped_lines(line, 82), line);
  EXPECT_EQ(wrapped_lines(line, 80),
            "evaluation about 20 times on 52.1K held-out tokens, together about 10 % of the\n"
            "           run");
  EXPECT_EQ(wrapped_lines(line, 50),
            "evaluation about 20 times on 52.1K held-out\n"
            "           tokens, together about 10 % of the run");
  EXPECT_EQ(wrapped_lines("step 20  held-out loss 5.6812  perplexity 293.30  bits per byte 5.3449\n"
                          "  code  loss 5.0",
                          50),
            "step 20  held-out loss 5.6812  perplexity 293.30\n"
            "  bits per byte 5.3449\n"
            "  code  loss 5.0");
  EXPECT_EQ(wrapped_lines("", 50), "");
  EXPECT_EQ(wrapped_lines("a\n\nb\n", 50), "a\n\nb\n");
  // Columns are those of characters, not bytes.
  EXPECT_EQ(wrapped_lines("\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4\xC3\xA4", 6),
            "\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4\xC3\xA4");
}

TEST(ProgressLine, CommandsAndLongPathsStayWhole) {
  const std::string command = "next       lmtrain eval /home/me/lmtrain/runs/own --last";
  EXPECT_EQ(wrapped_lines(command, 30), command);
  const std::string path = "checkpoint /home/me/lmtrain/runs/own/checkpoints/step_00000049";
  EXPECT_EQ(wrapped_lines(path, 40), path);
}

TEST(ProgressBar, ReachesNeitherMoreThanTheFileNorLessThanBefore) {
  ProgressBar progress("reading", 10);
  uint64_t counted = 0;
  for (const auto& [bytes, wanted] :
       std::vector<std::pair<uint64_t, uint64_t>>{{4, 4}, {3, 4}, {12, 10}, {0, 10}}) {
    progress.reach(bytes, /*size=*/10, counted);
    EXPECT_EQ(counted, wanted);
  }
}

}  // namespace

}  // namespace lmtrain
