// A file system that refuses: each open, opendir, readdir, read and stat of a preparation, a run
// and a resume fails once, for a moment or for good. The result is the same to the bit, or the
// exit code is 5, the message has the name, and the same command afterwards gives the same bits.
//
// All of it takes hours; a sample is taken unless LMTRAIN_FAULTS says otherwise
// (scripts/fault_sweep.sh).
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "corpus/readers/arrow_files.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

struct Fault {
  long call = 0;
  int error = 0;
  int times = 0;
};

struct Report {
  long calls = 0;
  std::string kind, path;
};

constexpr std::array<int, 4> kErrors = {EIO, ESTALE, EINTR, EMFILE};
constexpr std::array<int, 3> kTimes = {1, 3, -1};

// Every file below a folder, with its content; locks and times of use left out.
Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder);
    if (entry.is_regular_file() && !name.starts_with("locks"))
      files[name] = read_text(entry.path());
  }
  return files;
}

class Faults : public ::testing::Test {
 protected:
  Faults() {
    for (const char* name : {"a.txt", "sub/b.txt"}) {
      std::string text;
      for (int i = 0; i < 60; ++i) text += name + std::to_string(i * i) + (i % 7 == 0 ? "\n" : " ");
      workspace_.write(std::string("corpus/") + name, text);
    }
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += R"({"text":"line )" + std::to_string(i) + R"( of some text, )" +
               std::to_string(i * 7919) + "\"}\n";
    workspace_.write("corpus/c.jsonl", lines);
    fs::copy(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model",
             workspace_ / "tokenizer.model");
    config_ = workspace_.config(changes());
  }

  Json changes() const {
    return {{"tokenizer", {{"model", (workspace_ / "tokenizer.model").string()}}},
            {"data",
             {{"train", {(workspace_ / "corpus").string()}},
              {"eval", nullptr},
              {"eval_fraction", 0.2}}},
            {"sequence", {{"max_length", 32}, {"min_length", 16}}},
            {"model", {{"hidden_size", 16}, {"intermediate_size", 32}, {"num_hidden_layers", 1}}},
            {"batch", {{"tokens", 64}}},
            {"train", {{"steps", 4}}},
            {"eval", {{"every", "2 steps"}}},
            {"checkpoint", {{"every", "2 steps"}, {"async", false}}}};
  }

  ProcessResult run_with(const std::vector<std::string>& command, const Fault& fault,
                         Report& report) {
    const fs::path file = workspace_ / "report";
    ProcessOptions options;
    options.env = {{"LD_PRELOAD", LMTRAIN_FAULT_LIBRARY},
                   {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                   {"LMTRAIN_FAULT_BELOW", watched()},
                   {"LMTRAIN_FAULT_CALL", std::to_string(fault.call)},
                   {"LMTRAIN_FAULT_ERRNO", std::to_string(fault.error)},
                   {"LMTRAIN_FAULT_TIMES", std::to_string(fault.times)},
                   {"LMTRAIN_FAULT_REPORT", file.string()}};
    const ProcessResult result = lmtrain(command, options);
    std::ifstream lines(file);
    lines >> report.calls >> report.kind >> report.path;
    return result;
  }

  std::string watched() const {
    return (workspace_ / "corpus").string() + ":" + (workspace_ / "cache").string() + ":" +
           (workspace_ / "run").string() + ":" + (workspace_ / "tokenizer.model").string();
  }

  // The message names what failed, or a folder around it.
  bool names(const std::string& err, fs::path path) const {
    for (; path != workspace_ / "" && path.has_relative_path(); path = path.parent_path()) {
      if (path.parent_path() == workspace_ / "" || err.find(path.string()) != std::string::npos)
        return err.find(path.string()) != std::string::npos;
    }
    return false;
  }

  // `begin` lays the files out as before the command; `difference_now` says what is not as it
  // should be.
  void sweep(const std::string& name, const std::vector<std::string>& command,
             const std::function<void()>& begin,
             const std::function<std::string()>& difference_now) {
    begin();
    Report counted;
    const ProcessResult plain = run_with(command, {}, counted);
    ASSERT_EQ(plain.exit_code, 0) << plain;
    ASSERT_EQ(difference_now(), "");
    ASSERT_GT(counted.calls, 50);

    std::vector<Fault> all;
    for (long call = 1; call <= counted.calls; ++call)
      for (const int error : kErrors)
        for (const int times : kTimes) all.push_back({call, error, times});
    // LMTRAIN_FAULTS: "3/8" is the third eighth of all; else some thirty spread over them.
    size_t first = all.size() / 60;
    size_t step = std::max<size_t>(1, all.size() / 15);
    while (step % 2 == 0 || step % 3 == 0) ++step;  // all errors and numbers of times are met
    if (const char* part = std::getenv("LMTRAIN_FAULTS")) {
      char* slash = nullptr;
      first = std::strtoul(part, &slash, 10) - 1;
      step = std::strtoul(slash + 1, nullptr, 10);
    }
    int failed = 0;
    int same = 0;
    for (size_t i = first; i < all.size(); i += step) {
      const Fault& fault = all[i];
      begin();
      Report report;
      const ProcessResult result = run_with(command, fault, report);
      SCOPED_TRACE(name + ": call " + std::to_string(fault.call) + " (" + report.kind + " " +
                   report.path + ") errno " + std::to_string(fault.error) + ", times " +
                   std::to_string(fault.times));
      if (result.exit_code == 0) {
        ++same;
        EXPECT_EQ(difference_now(), "") << result;
        continue;
      }
      ++failed;
      EXPECT_EQ(result.exit_code, 5) << result;
      EXPECT_TRUE(names(result.err, report.path)) << result;
      const ProcessResult again = lmtrain(command);
      EXPECT_EQ(again.exit_code, 0) << "again: " << again;
      EXPECT_EQ(difference_now(), "") << "after it went on: " << again;
    }
    std::cout << name << ": " << counted.calls << " calls; of " << same + failed << " faults "
              << same << " changed nothing, " << failed << " ended with exit code 5" << std::endl;
  }

  Workspace workspace_;
  std::string config_;
};

TEST_F(Faults, OfAPreparation) {
  Json trained = changes();
  trained["tokenizer"] = {{"model", nullptr}, {"train", {{"vocab_size", 300}}}};
  const std::string config = workspace_.config(trained, "trained.json");
  const fs::path cache = workspace_ / "cache";
  const std::vector<std::string> command = {"prepare", config};
  ASSERT_EQ(lmtrain(command).exit_code, 0);
  const Files expected = files_of(cache);
  ASSERT_GT(expected.size(), 4U);
  sweep(
      "preparation", command, [&] { fs::remove_all(cache); },
      [&]() -> std::string {
        const Files now = files_of(cache);
        for (const auto& [name, content] : expected) {
          if (!now.contains(name)) return name + " is missing";
          if (now.at(name) != content) return name + " differs";
        }
        return now.size() == expected.size() ? "" : "more files than expected";
      });
}

// Every open, read and stat of a Parquet and an Arrow file, refused once: as for text, it is tried
// again.
TEST_F(Faults, OfTablesPass) {
  Rows rows;
  for (int i = 0; i < 30; ++i) rows.push_back("row " + std::to_string(i * i) + " of a table");
  const auto table = table_of(rows);
  const fs::path corpus = workspace_ / "corpus";
  fs::remove_all(corpus);
  workspace_.write("corpus/a.parquet", parquet_bytes(*table));
  workspace_.write("corpus/b.arrow", arrow_stream_bytes(*table));
  workspace_.write("corpus/c.feather", arrow_file_bytes(*table));
  const fs::path cache = workspace_ / "cache";
  const std::vector<std::string> command = {"prepare", config_};
  Report counted;
  ASSERT_EQ(run_with(command, {}, counted).exit_code, 0);
  const Files expected = files_of(cache);
  int reads = 0;
  for (long call = 1; call <= counted.calls; call += 3) {
    fs::remove_all(cache);
    Report report;
    const ProcessResult result = run_with(command, {call, EIO, 1}, report);
    const bool is_table = report.path.starts_with(corpus.string() + "/");
    if (!is_table) continue;
    reads += report.kind == "read" ? 1 : 0;
    EXPECT_EQ(result.exit_code, 0) << report.kind << " " << report.path << ": " << result;
    EXPECT_TRUE(files_of(cache) == expected) << report.kind << " " << report.path;
  }
  EXPECT_GT(reads, 3);
}

TEST_F(Faults, OfARunAndAResume) {
  const RunDir expected = train(config_, workspace_ / "expected");
  const RunDir run(workspace_ / "run");
  const auto difference_now = [&] { return difference(run, expected); };
  sweep(
      "run", {"train", config_, "--run-dir", run.path(), "--continue"},
      [&] { fs::remove_all(run.folder()); }, difference_now);

  // As a run killed after its first checkpoint leaves it.
  fs::remove_all(run.folder());
  const RunDir killed = train(config_, run.folder()).copy(workspace_ / "killed");
  fs::remove_all(killed.checkpoint(4));
  sweep(
      "resume", {"resume", run.path()},
      [&] {
        fs::remove_all(run.folder());
        killed.copy(run.folder());
      },
      difference_now);
}

}  // namespace
}  // namespace lmtrain::testing
