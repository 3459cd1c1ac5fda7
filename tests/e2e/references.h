// Runs to compare with and to go on from, made once a process.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <string>

#include "e2e/workspace.h"

namespace lmtrain::testing {

// A finished run of tiny_config with `changes`, and its workspace (config.json, cache).
struct Reference {
  explicit Reference(const Json& changes)
      : config(workspace.config(changes)), run(train(config, workspace / "reference")) {}
  // A path in the workspace that no other test of this process has.
  std::filesystem::path fresh(const std::string& name) const {
    static int count = 0;
    return workspace / (name + "-" + std::to_string(++count));
  }

  Workspace workspace;
  std::string config;
  RunDir run;
};

inline const Reference& reference(const Json& changes = Json::object()) {
  static std::map<std::string, Reference> made;
  return made.try_emplace(changes.dump(), changes).first->second;
}

// A run of `of`'s config that got `signal` once metrics.jsonl had a line of the step `step` and it
// had `checkpoints` of them. On a fast machine it may end before the signal comes, and another one
// is begun.
inline RunDir interrupted_run(const Reference& of, const std::string& name, int signal,
                              int64_t step, size_t checkpoints = 0) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RunDir run(of.fresh(name));
    LmtrainProcess process({"train", of.config, "--run-dir", run.path()});
    EXPECT_TRUE(process.wait_until([&] {
      return run.has_metrics_line("{\"step\":" + std::to_string(step) + ",") &&
             run.checkpoint_steps().size() >= checkpoints;
    }));
    process.send(signal);
    const ProcessResult result = process.wait();
    if (result.exit_code == 0) continue;
    if (signal == SIGKILL) {
      EXPECT_EQ(result.signal, SIGKILL) << result;
    } else {
      EXPECT_EQ(result.exit_code, 128 + signal) << result;
    }
    return run;
  }
  ADD_FAILURE() << "each run ended before the signal came";
  return RunDir(of.fresh(name));
}

// A run of `expected`'s config that was killed once metrics.jsonl had a line of the step `step`,
// and then resumed to its end.
inline RunDir killed_and_resumed(const Reference& expected, int64_t step) {
  const RunDir run = interrupted_run(expected, "killed", SIGKILL, step);
  const ProcessResult resumed = resume(run);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  return run;
}

// A run of tiny_config that was stopped in the middle and has three checkpoints or more.
inline const RunDir& stopped_run() {
  static const RunDir stopped = [] {
    RunDir run = interrupted_run(reference(), "stopped", SIGTERM, 16);
    EXPECT_GE(run.checkpoint_steps().size(), 3U);
    return run;
  }();
  return stopped;
}

inline RunDir copy_of_stopped_run(const std::string& name) {
  return stopped_run().copy(reference().fresh(name));
}

}  // namespace lmtrain::testing
