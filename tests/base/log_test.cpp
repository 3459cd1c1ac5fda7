#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <functional>
#include <regex>
#include <thread>

#include "base/file.h"
#include "base/progress.h"
#include "base/support.h"

namespace lmtrain {
namespace {

// The log file, closed when the test ends, whatever it found.
struct FileOfTest {
  explicit FileOfTest(const std::filesystem::path& file) { log_to_file(file); }
  ~FileOfTest() { log_to_file({}); }
};

// Without the times, which must be there.
std::string without_times(const std::string& text) {
  static const std::regex kTime(R"((^|\n)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z )");
  return std::regex_replace(text, kTime, "$1");
}

// Captured output is a file, so lines are plain and passing progress is left out.
TEST(Log, LinesInAFileArePlain) {
  ::testing::internal::CaptureStderr();
  log_note("a note");
  log_progress("step 1", false);
  log_progress({{"step 2", 0}, {"loss 3", 1}}, true);
  log_progress_done();
  log_warning("look here");
  log_error("it ends");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "a note\nstep 2  loss 3\nwarning: look here\nlmtrain: it ends\n");
}

TEST(Log, ARankAboveZeroSaysWarningsAndErrorsWithItsNumber) {
  ::testing::internal::CaptureStderr();
  log_as_rank(3);
  log_note("a note");
  log_progress("step 2", true);
  log_warning("look here");
  {
    const WarningsMuted muted;
    log_warning("rank 2 says it");
    log_error("not this");
  }
  log_warning("and here");
  log_as_rank(0);
  log_note("of rank 0");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: rank 3: look here\nlmtrain: rank 3: not this\nwarning: rank 3: and here\n"
            "of rank 0\n");
}

TEST(Log, KeepsItsLinesInAFileWithTheTime) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "train.log";
  ::testing::internal::CaptureStderr();
  { const FileOfTest closed_again(folder / "earlier.log"); }
  log_note("before there is a file");
  {
    const FileOfTest opened(file);
    log_progress("passes", false);
    log_progress("stays", true);
    log_warning("two\nlines");
    log_error("the end");
  }
  log_note("not for the file");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(without_times(read_file(file)),
            "before there is a file\nstays\nwarning: two\nlines\nlmtrain: the end\n");
}

TEST(Log, AFileThatCannotBeWrittenIsOneWarning) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "gone" / "train.log";
  ::testing::internal::CaptureStderr();
  { const FileOfTest takes_what_was_said_before(folder / "earlier.log"); }
  {
    const FileOfTest opened(file);
    log_note("one");
    log_note("two");
    lmtrain::create_directories(file.parent_path());
    log_note("three");
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::regex_replace(said, std::regex("warning: [^\n]*train.log[^\n]*\n"), "W\n"),
            "one\nW\ntwo\nthree\n")
      << said;
  EXPECT_EQ(without_times(read_file(file)), "three\n");
}

// A terminal of the test whose output is stopped takes the place of a disk that hangs: a write to
// it waits until the end of the object, which lets it go on.
class HangingFile {
 public:
  HangingFile() {
    int terminal = -1;
    if (::openpty(&outer_, &terminal, name_, nullptr, nullptr) != 0) return;
    hung_ = terminal;
    is_ready_ = ::tcflow(hung_, TCOOFF) == 0;
  }
  ~HangingFile() {
    ::tcflow(hung_, TCOON);
    for (std::thread& thread : waiting_) thread.join();
    ::close(hung_);
    ::close(outer_);
  }
  HangingFile(const HangingFile&) = delete;
  HangingFile& operator=(const HangingFile&) = delete;

  bool is_ready() const { return is_ready_; }
  std::filesystem::path path() const { return name_; }
  void wait_in(std::function<void()> work) { waiting_.emplace_back(std::move(work)); }

 private:
  int outer_ = -1, hung_ = -1;
  char name_[64] = {};
  bool is_ready_ = false;
  std::vector<std::thread> waiting_;
};

// The watch over a run that hangs prints its warning from a thread of its own, and ends the process
// by its last error: both must come through while the disk of the log does not answer.
TEST(Log, AFileThatHangsHoldsUpNeitherTheFirstLineOfAThreadNorTheLastError) {
  ::testing::internal::CaptureStderr();
  const auto wait_for_bytes = [](size_t size) {
    struct stat captured {};
    for (int i = 0; i < 1000; ++i) {
      ::fstat(STDERR_FILENO, &captured);
      if (static_cast<size_t>(captured.st_size) >= size) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  std::string said;
  {
    HangingFile file;
    if (!file.is_ready()) {
      ::testing::internal::GetCapturedStderr();
      GTEST_SKIP() << "no pseudo-terminal can be had";
    }
    { const FileOfTest takes_what_was_said_before("/dev/null"); }
    log_to_file(file.path());
    file.wait_in([] { log_note("a step"); });
    wait_for_bytes(7);
    file.wait_in([] { log_warning("the run hangs"); });
    wait_for_bytes(30);
    print_last_error("the process ends");
    said = ::testing::internal::GetCapturedStderr();
  }
  log_to_file({});
  EXPECT_EQ(said, "a step\nwarning: the run hangs\n\nlmtrain: the process ends\n");
}

// Names of files and texts of documents come from outside.
TEST(Log, NothingInALineSteersTheTerminalOrItsFile) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "train.log";
  ::testing::internal::CaptureStderr();
  { const FileOfTest closed_again(folder / "earlier.log"); }
  {
    const FileOfTest opened(file);
    log_note(
        "a\x1B]0;title\x07"
        "b");
    log_warning(
        "\xC2\x9B"
        "31m \xFF\r");
    log_error("\xE2\x80\xAE");
    log_progress("step\x1B[2J", true);
    print_last_error("\x1B");
  }
  const std::string lines =
      "a\\033]0;title\\ab\nwarning: \\u009b31m \\377\\r\nlmtrain: \\u202e\nstep\\033[2J\n";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), lines + "\nlmtrain: \\033\n");
  EXPECT_EQ(without_times(read_file(file)), lines);
}

}  // namespace
}  // namespace lmtrain
