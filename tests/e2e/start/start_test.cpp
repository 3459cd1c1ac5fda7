// How the program starts: which libraries it finds, wherever it lies and whoever runs it, and how
// long its threads will wait.
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

// Runs a command without the environment of this test, and as nobody where this test is root.
Arguments as_a_stranger(const Arguments& command) {
  Arguments all;
  if (::geteuid() == 0)
    all = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  all.insert(all.end(), {"/usr/bin/env", "-i"});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

// The dynamic linker lists what it finds for the program, in lines "name => path (address)". Each
// path must lie in `folder` or in a folder of the system.
void expect_libraries_in(const fs::path& folder, const fs::path& program) {
  const ProcessResult result =
      Process({"/usr/bin/env", "-i", "LD_TRACE_LOADED_OBJECTS=1", program.string()}).wait();
  EXPECT_EQ(result.shell_code(), 0) << result;
  std::istringstream lines(result.out);
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.find("not found"), std::string::npos) << line;
    const size_t arrow = line.find("=> ");
    if (arrow == std::string::npos) continue;
    const std::string path = line.substr(arrow + 3, line.rfind(" (") - arrow - 3);
    const fs::path parent = fs::path(path).parent_path().lexically_normal();
    if (parent == folder) {
      ++found;
    } else {
      EXPECT_TRUE(path.starts_with("/lib") || path.starts_with("/usr/lib")) << line;
    }
  }
  EXPECT_GE(found, 5) << "libtorch, its OpenMP and Arrow\n" << result;
}

TEST(Start, FindsItsLibrariesBesideItself) {
  const fs::path program = lmtrain_binary();
  expect_libraries_in(program.parent_path() / "lib", program);
}

TEST(Start, AnInstalledProgramRunsElsewhereForAnotherUser) {
  const Workspace workspace;
  // Another user must be able to enter it, and to write there.
  fs::permissions(workspace / "", fs::perms::all);
  const fs::path first = workspace / "first", second = workspace / "second";
  const fs::path build = fs::path(lmtrain_binary()).parent_path();
  const ProcessResult installed =
      Process({LMTRAIN_CMAKE, "--install", build.string(), "--prefix", first.string()}).wait(600);
  ASSERT_EQ(installed.exit_code, 0) << installed;
  fs::rename(first, second);
  const fs::path program = second / "bin/lmtrain";
  expect_libraries_in(second / "lib/lmtrain", program);

  workspace.write("text.txt", std::string(20000, 'a') + "\n\n" + std::string(20000, 'b') + "\n");
  fs::copy(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model", workspace / "");
  const std::string config = workspace.config(
      {{"tokenizer", {{"model", (workspace / "tokenizer.model").string()}}},
       {"data",
        {{"train", {(workspace / "text.txt").string()}}, {"eval", nullptr}, {"eval_fraction", 0}}},
       {"eval", {{"every", nullptr}}},
       {"train", {{"steps", 2}}}});
  fs::permissions(config, fs::perms::others_read, fs::perm_options::add);
  ProcessOptions options;
  options.cwd = workspace / "";
  const ProcessResult trained = Process(as_a_stranger({program.string(), "train", config,
                                                       "--run-dir", (workspace / "run").string()}),
                                        options)
                                    .wait();
  EXPECT_EQ(trained.exit_code, 0) << trained;
}

// A processor has what is below its best instructions too. On each the losses are the same from run
// to run.
TEST(Start, UsesNoMoreInstructionsThanAreAllowed) {
  const Workspace workspace;
  for (const auto& [capability, isa] : {std::pair{"default", "baseline"}, {"avx2", "avx2"}}) {
    if (isa == std::string("avx2") && __builtin_cpu_supports("x86-64-v3") == 0) continue;
    ProcessOptions options;
    options.env["ATEN_CPU_CAPABILITY"] = capability;
    std::vector<RunDir> runs;
    for (const char* name : {"first", "second"}) {
      runs.emplace_back(workspace / str(capability, "-", name));
      const ProcessResult result =
          lmtrain({"train", workspace.config(), "--run-dir", runs.back().path(), "--set",
                   "train.steps=50", "--set", "precision=auto"},
                  options);
      EXPECT_EQ(result.exit_code, 0) << result;
      EXPECT_NE(result.err.find(str(isa, " kernels, fp32")), std::string::npos) << result;
    }
    EXPECT_EQ(difference(runs[0], runs[1]), "") << capability;
  }
}

}  // namespace
}  // namespace lmtrain::testing
