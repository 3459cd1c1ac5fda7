#include "base/log.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

// Captured output is a file, so lines are plain and passing progress is left out.
TEST(Log, LinesInAFileArePlain) {
  ::testing::internal::CaptureStderr();
  log_note("a note");
  log_progress("step 1", false);
  log_progress("step 2", true);
  log_progress_done();
  log_warning("look here");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a note\nstep 2\nwarning: look here\n");
}

}  // namespace
}  // namespace lmtrain
