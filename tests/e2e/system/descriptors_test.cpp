// A program that is started with descriptors closed, as some daemons and `2>&-` do, writes its
// checkpoints and nothing else into them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "e2e/references.h"
#include "formats/manifest.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Every checkpoint of tiny_config, 14 of them.
Json all_kept() { return {{"checkpoint", {{"keep", 100}}}}; }

// The command of a shell that starts its arguments with these descriptors closed.
std::string with_closed(int combination) {
  std::string command = "exec \"$@\"";
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if ((combination >> fd & 1) != 0) command += " " + std::to_string(fd) + ">&-";
  return command;
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_same_checkpoints(const RunDir& run, const RunDir& expected) {
  ASSERT_EQ(run.checkpoint_steps(), expected.checkpoint_steps());
  for (const int64_t step : run.checkpoint_steps()) {
    EXPECT_NO_THROW(verify_checkpoint_files(run.checkpoint(step), /*skip_training_state=*/false));
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json",
                             "generation_config.json", "tokenizer.model", "tokenizer_config.json"})
      EXPECT_EQ(read_text(run.checkpoint(step) / file), read_text(expected.checkpoint(step) / file))
          << "step " << step << ", " << file;
  }
  EXPECT_EQ(difference(run, expected), "");
}

TEST(Descriptors, AnyMayBeClosed) {
  const Reference& usual = reference(all_kept());
  ASSERT_GE(usual.run.checkpoint_steps().size(), 14U);
  for (int combination = 0; combination < 8; ++combination) {
    SCOPED_TRACE(combination);
    const RunDir run(usual.fresh("closed"));
    const std::vector<std::string> train = {"train", usual.config, "--run-dir", run.path()};
    const ProcessResult result =
        Process(joined({"/bin/sh", "-c", with_closed(combination), "sh"}, lmtrain_command(train)),
                on_one_core({}))
            .wait();
    EXPECT_EQ(result.exit_code, 0) << result;
    expect_same_checkpoints(run, usual.run);
    EXPECT_EQ(run.status().at("state"), "done");
    const bool has_out = (combination >> STDOUT_FILENO & 1) == 0;
    EXPECT_EQ(result.out.empty(), !has_out) << result;
    fs::remove_all(run.folder());
  }
}

// A program that the run might start inherits none of its files.
TEST(Descriptors, FilesOfARunAreClosedOnExec) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  const std::string config = workspace.config({{"train", {{"steps", 100000}}}});
  LmtrainProcess process({"train", config, "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":4,"); }));
  process.send(SIGSTOP);
  sleep_ms(20);
  const fs::path descriptors = "/proc/" + std::to_string(process.pid());
  int files = 0;
  for (const auto& entry : fs::directory_iterator(descriptors / "fd")) {
    std::error_code gone;
    const std::string path = fs::read_symlink(entry.path(), gone);
    if (gone || !path.starts_with((workspace / "").string())) continue;
    ++files;
    std::ifstream info(descriptors / "fdinfo" / entry.path().filename());
    for (std::string word; info >> word && word != "flags:";) continue;
    int flags = 0;
    info >> std::oct >> flags;
    EXPECT_TRUE((flags & O_CLOEXEC) != 0) << path;
  }
  EXPECT_GE(files, 1) << "the lock of the run";
}

// The descriptor is taken then too, by one that cannot be written.
TEST(Descriptors, AnyMayBeClosedWhereThereIsNoDevNull) {
  const std::vector<std::string> without_dev = {
      "/usr/bin/unshare",
      "--map-root-user",
      "--mount",
      "/bin/sh",
      "-c",
      "mount -t tmpfs none /dev && " + with_closed(1 << STDIN_FILENO | 1 << STDERR_FILENO),
      "sh"};
  if (Process(joined(without_dev, {"/bin/true"})).wait().exit_code != 0)
    GTEST_SKIP() << "no file system can be mounted here";
  const Reference& usual = reference(all_kept());
  const RunDir run(usual.fresh("no dev"));
  const std::vector<std::string> train = {"train", usual.config, "--run-dir", run.path()};
  const ProcessResult result =
      Process(joined(without_dev, lmtrain_command(train)), on_one_core({})).wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  expect_same_checkpoints(run, usual.run);
}

}  // namespace
}  // namespace lmtrain::testing
