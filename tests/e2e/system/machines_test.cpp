// Processes of local rank 0, as on several machines: each prepares the data. /proc/self/cwd stands
// for what lies under one path on every machine.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "e2e/ranks.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// A process as that of a machine whose files lie in `folder`.
ProcessOptions machine(const fs::path& folder) {
  return {.env = {{"LOCAL_RANK", "0"}}, .cwd = folder};
}

class Machines : public ::testing::Test {
 protected:
  Machines() {
    for (const char* name : {"first", "second"})
      workspace_.write(name + std::string("/text.jsonl"), text());
    // An entry of the cache is found by path, size and time of the text.
    fs::last_write_time(workspace_ / "second/text.jsonl",
                        fs::last_write_time(workspace_ / "first/text.jsonl"));
  }
  // Each line of the licence is a document.
  static std::string text() {
    std::istringstream lines(read_text(LMTRAIN_SOURCE_DIR "/LICENSE"));
    std::string text;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) text += Json{{"text", line}}.dump() + "\n";
    return text;
  }

  // A run whose tokenizer is trained, with this cache.
  std::string config(const std::string& cache) const {
    return workspace_.config(
        {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 400}}}}},
         {"data",
          {{"train", {"/proc/self/cwd/text.jsonl"}}, {"eval", nullptr}, {"cache_dir", cache}}},
         {"parallel", {{"sum", "exact"}, {"parts", 4}}},
         {"train", {{"steps", 5}}}});
  }
  std::vector<std::string> train(const std::string& cache, const std::string& run) const {
    return {"train", config(cache), "--run-dir", (workspace_ / run).string()};
  }
  std::vector<ProcessOptions> both() const {
    return {machine(workspace_ / "first"), machine(workspace_ / "second")};
  }
  // What one process alone makes.
  RunDir alone(const std::string& cache) const {
    const ProcessResult result = lmtrain(train(cache, "alone"), {.cwd = workspace_ / "first"});
    EXPECT_EQ(result.exit_code, 0) << result;
    return RunDir(workspace_ / "alone");
  }
  // Prepares the data into `cache`, and makes an unfinished preparation of it whose lock is held.
  FileLock hold(const fs::path& cache) const {
    const ProcessResult result =
        lmtrain({"prepare", config(cache.string())}, {.cwd = workspace_ / "first"});
    EXPECT_EQ(result.exit_code, 0) << result;
    FileLock lock;
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(cache / "index"))
      if (entry.path().extension() == ".json") entries.push_back(entry.path());
    EXPECT_EQ(entries.size(), 1U);
    fs::remove(entries.at(0));
    EXPECT_TRUE(lock.try_acquire(cache / "locks" / ("index-" + entries.at(0).stem().string())));
    return lock;
  }
  static bool waits_for_lock(const Process& process) {
    return process.err().find("waiting for another process that prepares") != std::string::npos;
  }

  Workspace workspace_;
};

TEST_F(Machines, EachFillsTheCacheOfItsOwn) {
  const std::string cache = "/proc/self/cwd/cache";
  const RunDir expected = alone((workspace_ / "cache").string());
  Ranks ranks(train(cache, "run"), both());
  expect_all(ranks.wait(), 0);
  EXPECT_EQ(difference(RunDir(workspace_ / "run"), expected), "");
  for (const char* part : {"shards", "tokenizers"}) {
    const auto files = contents(workspace_ / "cache" / part);
    EXPECT_GE(files.size(), 2U);
    EXPECT_TRUE(contents(workspace_ / "first" / "cache" / part) == files) << part;
    EXPECT_TRUE(contents(workspace_ / "second" / "cache" / part) == files) << part;
  }
}

TEST_F(Machines, WithOneCacheTheyWaitForWhoeverHasTheLock) {
  const fs::path cache = workspace_ / "cache";
  FileLock lock = hold(cache);
  const auto made = contents(cache / "shards");
  Ranks ranks(train(cache.string(), "run"), both());
  EXPECT_TRUE(ranks[0].wait_until([&] { return waits_for_lock(ranks[0]); }));
  lock = FileLock();
  expect_all(ranks.wait(), 0);
  EXPECT_TRUE(contents(cache / "shards") == made);
  EXPECT_EQ(difference(RunDir(workspace_ / "run"), alone(cache.string())), "");
}

TEST_F(Machines, OtherTextIsNamed) {
  workspace_.write("second/text.jsonl", text() + "{\"text\": \"one document more\"}\n");
  Ranks ranks(train("/proc/self/cwd/cache", "run"), both());
  const std::vector<ProcessResult> results = ranks.wait();
  expect_all(results, 3);
  for (const ProcessResult& result : results) {
    EXPECT_NE(result.err.find("has found other data than rank 0"), std::string::npos) << result;
    EXPECT_NE(result.err.find("rank 1 ("), std::string::npos) << result;
  }
}

// Also where both are on one machine, and only rank 0 prepares. The two runs wait at the same time.
TEST_F(Machines, AKillWhileTheOtherPreparesEndsIt) {
  const fs::path cache = workspace_ / "cache";
  const FileLock lock = hold(cache);
  std::vector<std::unique_ptr<Ranks>> runs;
  for (const std::string local_rank : {"0", "1"}) {
    std::vector<ProcessOptions> options = both();
    options[1].env["LOCAL_RANK"] = local_rank;
    std::vector<std::string> command = train(cache.string(), "run" + local_rank);
    command.insert(command.end(), {"--set", "parallel.timeout=6s"});
    runs.push_back(std::make_unique<Ranks>(command, options));
  }
  for (const auto& run : runs) {
    Ranks& ranks = *run;
    EXPECT_TRUE(ranks[0].wait_until([&] { return waits_for_lock(ranks[0]); }));
    ranks[1].send(SIGKILL);
  }
  for (const auto& run : runs) {
    const ProcessResult result = (*run)[0].wait();
    EXPECT_EQ(result.exit_code, 5) << result;
    EXPECT_NE(result.err.find("rank 1 ("), std::string::npos) << result;
    EXPECT_NE(result.err.find("no sign of life"), std::string::npos) << result;
  }
}

TEST_F(Machines, ASignalWhileTheyPrepareEndsBoth) {
  const fs::path cache = workspace_ / "cache";
  const FileLock lock = hold(cache);
  std::vector<std::unique_ptr<Ranks>> runs;  // which wait at the same time
  for (const char* name : {"run0", "run1"})
    runs.push_back(std::make_unique<Ranks>(train(cache.string(), name), both()));
  for (const size_t told : {0, 1}) {
    Ranks& ranks = *runs[told];
    EXPECT_TRUE(ranks[0].wait_until([&] { return waits_for_lock(ranks[0]); }));
    EXPECT_TRUE(ranks[told].wait_until([&] { return ranks[told].catches(SIGTERM); }));
    ranks[told].send(SIGTERM);
  }
  for (const auto& ranks : runs) expect_all(ranks->wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace lmtrain::testing
