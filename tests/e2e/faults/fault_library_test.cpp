// The fault library itself: what a loss of power takes back and what it leaves, and how calls are
// counted and refused.
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <sstream>

#include "e2e/faults/fault_server.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

class FaultLibrary : public ::testing::Test {
 protected:
  FaultLibrary() {
    fs::create_directories(folder_ / "work");
    fs::create_directories(folder_ / "limbo");
  }

  // Carries out a script of file_script.cpp in work/, whose words are parted by spaces.
  ProcessResult run(const std::string& script, const Fault& fault) {
    std::vector<std::string> command = {LMTRAIN_FILE_SCRIPT};
    std::istringstream words(script);
    for (std::string word; words >> word;) command.push_back(word);
    ProcessOptions options;
    options.cwd = folder_ / "work";
    options.env = {{"LD_PRELOAD", LMTRAIN_FAULT_LIBRARY},
                   {"LMTRAIN_FAULT_BELOW", folder_ / "work"},
                   {"LMTRAIN_FAULT_LIMBO", folder_ / "limbo"},
                   {"LMTRAIN_FAULT_CALL", std::to_string(fault.call)},
                   {"LMTRAIN_FAULT_HOW", fault.how},
                   {"LMTRAIN_FAULT_TIMES", std::to_string(fault.times)}};
    return Process(command, options).wait();
  }

  // The files there are when power is lost after a script, which begins with those of `before`.
  Files after_power_loss(const std::string& before, const std::string& script) {
    fs::remove_all(folder_ / "work");
    fs::remove_all(folder_ / "limbo");
    fs::create_directories(folder_ / "work");
    fs::create_directories(folder_ / "limbo");
    EXPECT_EQ(run(before, {}).exit_code, 0);
    const ProcessResult result = run(script, {.call = -1, .how = "power"});
    EXPECT_EQ(result.signal, SIGKILL) << script << result;
    return contents(folder_ / "work");
  }

  Workspace folder_;
};

TEST_F(FaultLibrary, PowerLossTakesBackContentThatWasNotSynced) {
  EXPECT_EQ(after_power_loss("write a old", "append a er"), (Files{{"a", "old"}}));
  EXPECT_EQ(after_power_loss("write a old", "append a er sync a"), (Files{{"a", "older"}}));
  EXPECT_EQ(after_power_loss("write a old", "append a er sync a append a !"),
            (Files{{"a", "older"}}));
  EXPECT_EQ(after_power_loss("write a old", "write a new"), (Files{{"a", "old"}}));
  EXPECT_EQ(after_power_loss("write a old", "cut a 1"), (Files{{"a", "old"}}));
  EXPECT_EQ(after_power_loss("write a old", "cut a 1 sync a"), (Files{{"a", "o"}}));
}

TEST_F(FaultLibrary, PowerLossTakesBackNamesWhoseFolderWasNotSynced) {
  EXPECT_EQ(after_power_loss("", "write a x sync a"), (Files{}));
  EXPECT_EQ(after_power_loss("", "write a x sync a sync ."), (Files{{"a", "x"}}));
  EXPECT_EQ(after_power_loss("", "write a x sync ."), (Files{{"a", ""}})) << "its content is lost";
  EXPECT_EQ(after_power_loss("write a x", "link a b"), (Files{{"a", "x"}}));
  EXPECT_EQ(after_power_loss("write a x", "unlink a"), (Files{{"a", "x"}}));
  EXPECT_EQ(after_power_loss("write a x", "unlink a sync ."), (Files{}));
}

TEST_F(FaultLibrary, PowerLossTakesBackARename) {
  EXPECT_EQ(after_power_loss("write a x write b y", "rename a b"), (Files{{"a", "x"}, {"b", "y"}}));
  EXPECT_EQ(after_power_loss("write a x write b y", "rename a b sync ."), (Files{{"b", "x"}}));
  EXPECT_EQ(after_power_loss("write b y", "write a x sync a rename a b"), (Files{{"b", "y"}}));
  // A file that was written in place of another and not synced is empty: the fault that
  // write_file_atomic avoids.
  EXPECT_EQ(after_power_loss("write b y", "write a x rename a b sync ."), (Files{{"b", ""}}));
}

TEST_F(FaultLibrary, PowerLossTakesBackFolders) {
  EXPECT_EQ(after_power_loss("", "mkdir d write d/a x sync d/a sync d"), (Files{}))
      << "the folder's own name was not synced";
  EXPECT_EQ(after_power_loss("", "mkdir d sync . write d/a x sync d/a sync d"),
            (Files{{"d/a", "x"}}));
  EXPECT_EQ(after_power_loss("mkdir d write d/a x", "unlink d/a rmdir d"), (Files{{"d/a", "x"}}));
  EXPECT_EQ(after_power_loss("mkdir d write d/a x", "unlink d/a rmdir d mkdir d write d/b y"),
            (Files{{"d/a", "x"}}));
  // What happened in a folder is found again wherever the folder was moved to.
  EXPECT_EQ(after_power_loss("mkdir d write d/a x", "unlink d/a rename d e sync ."),
            (Files{{"e/a", "x"}}));
  EXPECT_EQ(after_power_loss("mkdir d", "write d/a x sync d/a rename d e sync e sync ."),
            (Files{{"e/a", "x"}}));
}

TEST_F(FaultLibrary, RefusesTheCallAskedFor) {
  // 1 creates, 2 writes, 3 closes, 4 renames.
  const std::string script = "write a text rename a b";
  EXPECT_EQ(run(script, {.call = 1, .how = std::to_string(ENOSPC)}).exit_code, ENOSPC);
  EXPECT_EQ(run(script, {.call = 2, .how = std::to_string(EIO)}).exit_code, EIO);
  EXPECT_EQ(run(script, {.call = 4, .how = std::to_string(ESTALE)}).exit_code, ESTALE);
  EXPECT_EQ(run(script, {.call = 4, .how = "kill"}).signal, SIGKILL);
  EXPECT_EQ(contents(folder_ / "work"), (Files{{"a", "text"}})) << "before it was carried out";
  EXPECT_EQ(run(script, {.call = 5, .how = std::to_string(EIO)}).exit_code, 0);
  run("write a text", {.call = 2, .how = "short"});
  EXPECT_EQ(contents(folder_ / "work").at("a"), "te");
}

}  // namespace
}  // namespace lmtrain::testing
