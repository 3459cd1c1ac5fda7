// Limits on threads and on the address space that they need: the program trains, or says which
// limit is in its way. It neither hangs nor aborts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kThreads = 4;
constexpr double kLongestSeconds = 60;

// A short run with a cache of its own, so that text is encoded too.
class LimitedRun {
 public:
  LimitedRun() {
    fs::permissions(workspace_ / "", fs::perms::all);  // for another user
    fs::create_directory(workspace_ / "data");
    workspace_.write("data/a.txt", std::string(3000, 'a') + "\n");
    workspace_.write("data/b.txt", std::string(3000, 'b') + "\n");
    fs::copy(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model", workspace_ / "");
    config_ = workspace_.config(
        {{"threads", kThreads},
         {"tokenizer", {{"model", (workspace_ / "tokenizer.model").string()}}},
         {"data", {{"train", {(workspace_ / "data").string()}}, {"eval", nullptr}}},
         {"train", {{"steps", 3}}}});
  }

  // `before`: words of the command in front of the program.
  std::vector<std::string> command(std::vector<std::string> before = {}) {
    const std::string number = std::to_string(++runs_);
    for (const std::string& word :
         lmtrain_command({"train", config_, "--run-dir", (workspace_ / ("run" + number)).string(),
                          "--set", "data.cache_dir=" + (workspace_ / ("c" + number)).string()}))
      before.push_back(word);
    return before;
  }
  fs::path folder() const { return workspace_ / ""; }

 private:
  Workspace workspace_;
  std::string config_;
  int runs_ = 0;
};

bool is_before_the_program(const ProcessResult& result) {
  return result.exit_code == 127 &&
         result.err.find("loading shared libraries") != std::string::npos;
}

// Either it trains, or it says what is lacking.
void expect_done_or_told(const ProcessResult& result) {
  if (result.exit_code == 0 || is_before_the_program(result)) return;
  EXPECT_EQ(result.exit_code, 6) << result;
  EXPECT_NE(result.err.find("lmtrain: "), std::string::npos) << result;
  const auto says = [&](const char* word) { return result.err.find(word) != std::string::npos; };
  EXPECT_TRUE(says("memory") || says("threads")) << result;
}

rlim_t most_addresses(LimitedRun& run) {
  Process process(run.command(), on_one_core({}));
  uint64_t largest_kb = 0;
  while (process.running()) {
    std::ifstream status("/proc/" + std::to_string(process.pid()) + "/status");
    for (std::string word; status >> word;) {
      uint64_t kb = 0;
      if (word == "VmPeak:" && status >> kb) largest_kb = std::max(largest_kb, kb);
    }
    sleep_ms(2);
  }
  return static_cast<rlim_t>(largest_kb) << 10;
}

TEST(Threads, AddressSpaceFromLittleToEnough) {
  LimitedRun run;
  const rlim_t enough = most_addresses(run);
  int refused = 0, done = 0;
  constexpr int kSteps = 12;
  for (int step = 1; step <= kSteps; ++step) {
    ProcessOptions options;
    options.address_space = enough / kSteps * static_cast<rlim_t>(step) + (64 << 20);
    SCOPED_TRACE(*options.address_space);
    const ProcessResult result = Process(run.command(), on_one_core(options)).wait(kLongestSeconds);
    expect_done_or_told(result);
    if (result.exit_code == 0) ++done;
    if (result.exit_code == 6) ++refused;
  }
  EXPECT_GE(done, 1);
  EXPECT_GE(refused, 1);
}

TEST(Threads, ProcessesFromOneToEnough) {
  LimitedRun run;
  std::vector<std::string> other_user;
  // The limit does not bind root.
  if (::geteuid() == 0) {
    other_user = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    std::vector<std::string> probe = other_user;
    probe.insert(probe.end(), {lmtrain_binary(), "--version"});
    if (Process(probe).wait().exit_code != 0) GTEST_SKIP() << "nobody may not run the program here";
  }
  int refused = 0, done = 0;
  // What a run of four threads needs lies in between; other processes of the user count too.
  for (const int limit : {1, 2, 3, 5, 7, 9, 10, 11, 12, 4096}) {
    SCOPED_TRACE(limit);
    std::vector<std::string> before = other_user;
    before.insert(before.end(), {"/usr/bin/prlimit", "--nproc=" + std::to_string(limit)});
    ProcessOptions options;
    options.cwd = run.folder();
    const ProcessResult result =
        Process(run.command(before), on_one_core(options)).wait(kLongestSeconds);
    expect_done_or_told(result);
    if (result.exit_code == 0) ++done;
    if (result.exit_code != 6) continue;
    ++refused;
    for (const std::string& part :
         {std::string("lower threads"), "ulimit -u " + std::to_string(limit)})
      EXPECT_NE(result.err.find(part), std::string::npos) << result;
  }
  EXPECT_GE(refused, 1);
  if (::geteuid() == 0) {
    EXPECT_GE(done, 1);
  }
}

// A pipe that nobody writes to, in place of the config.
TEST(Threads, ASignalEndsTheWaitForAPipe) {
  const Workspace workspace;
  const std::string pipe = (workspace / "config.json").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  LmtrainProcess process({"train", pipe});
  // It has opened the pipe once a writer can.
  int writer = -1;
  ASSERT_TRUE(process.wait_until([&] {
    writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return writer >= 0;
  }));
  process.send(SIGTERM);
  const ProcessResult result = process.wait(kLongestSeconds);
  ::close(writer);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result;
}

}  // namespace
}  // namespace lmtrain::testing
