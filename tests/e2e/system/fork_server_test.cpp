#include "e2e/fork_server.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "base/support.h"
#include "e2e/process.h"

namespace lmtrain::testing {
namespace {

// What a shell says and how it ends, started anew and forked.
void expect_same(ForkServer& server, const std::string& script, const ProcessOptions& options) {
  const std::vector<std::string> command = {"/bin/sh", "-c", script, "", "an argument", ""};
  const ProcessResult started = Process(command, options).wait();
  ProcessOptions forked = options;
  forked.server = &server;
  const ProcessResult result = Process(command, forked).wait();
  EXPECT_EQ(result.exit_code, started.exit_code) << script;
  EXPECT_EQ(result.signal, started.signal) << script;
  EXPECT_EQ(result.out, started.out) << script;
  EXPECT_EQ(result.err, started.err) << script;
}

TEST(Forks, ACommandIsAsOneThatIsStarted) {
  const TemporaryFolder folder;
  ForkServer server("/bin/sh", LMTRAIN_FORK_LIBRARY, {});
  ProcessOptions options;
  options.cwd = folder.path();
  options.env = {{"A_SETTING", "two words"}};
  expect_same(server, "pwd; env | grep -v ^_= | sort; echo \"$# ($1) ($2)\"; exit 7", options);
  expect_same(server, "echo wrong >&2; cat", options);
  expect_same(server, "kill -9 $$", options);
  expect_same(server, "ulimit -c; ulimit -n", options);
}

TEST(Forks, SeveralRunBesideEachOtherAndAreChildrenOfTheTest) {
  ForkServer server("/bin/sh", LMTRAIN_FORK_LIBRARY, {});
  ProcessOptions options;
  options.server = &server;
  Process first({"sh", "-c", "exec sleep 60"}, options);
  EXPECT_EQ(Process({"sh", "-c", "exit 3"}, options).wait().exit_code, 3);
  EXPECT_TRUE(first.running());
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().signal, SIGTERM);
}

TEST(Forks, AServerThatHasEndedIsAnError) {
  ForkServer server("/bin/no such program", LMTRAIN_FORK_LIBRARY, {});
  ProcessOptions options;
  options.server = &server;
  EXPECT_THROW(Process({"sh"}, options), std::runtime_error);
}

}  // namespace
}  // namespace lmtrain::testing
