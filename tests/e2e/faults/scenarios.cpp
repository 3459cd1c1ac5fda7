#include "e2e/faults/scenarios.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <csignal>

#include "text/arrow_files.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

// Every file below a cache, with its content; locks left out.
Files files_of(const fs::path& cache) {
  Files files = contents(cache);
  std::erase_if(files, [](const auto& file) { return file.first.starts_with("locks"); });
  return files;
}

std::string difference_of_files(const Files& now, const Files& expected) {
  for (const auto& [name, content] : expected) {
    if (!now.contains(name)) return name + " is missing";
    if (now.at(name) != content) return name + " differs";
  }
  for (const auto& [name, content] : now)
    if (!expected.contains(name)) return name + " is too many";
  return "";
}

// Two steps, with a checkpoint after each: what is done once is as good as what is done often.
Json tiny_changes() {
  return {{"data", {{"eval", nullptr}, {"eval_fraction", 0.2}}},
          {"sequence", {{"max_length", 32}, {"min_length", 16}}},
          {"model", {{"hidden_size", 16}, {"intermediate_size", 32}, {"num_hidden_layers", 1}}},
          {"batch", {{"tokens", 64}}},
          {"train", {{"steps", 2}}},
          {"eval", {{"every", 0}}},
          {"checkpoint", {{"every", "1 steps"}, {"async", false}}},
          {"log", {{"tensorboard", false}}}};
}

Json train_changes() { return {{"log", {{"tensorboard", true}}}}; }

Json restart_changes() { return {{"restart", {{"seeds", 2}, {"tokens", "50%"}}}}; }

// With this seed the third batch lies above the first two, and the run goes back once.
Json rollback_changes() {
  return {{"seed", 1},
          {"sequence", {{"min_length", 32}}},
          {"train", {{"steps", 3}}},
          {"guard", {{"on_spike", "rollback"}, {"window", 2}, {"spike_sigma", 2}}}};
}

// In memory, where the machine has such a folder: a sync takes no time there.
Workspace workspace_in_memory() {
  const char* folder = "/dev/shm";
  if (fs::is_directory(folder)) ::setenv("TMPDIR", folder, /*overwrite=*/0);
  return {};
}

}  // namespace

FaultScenarios::FaultScenarios() : workspace_(workspace_in_memory()), server_(servers_ / "server") {
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
  Rows rows;
  for (int i = 0; i < 30; ++i) rows.push_back("row " + std::to_string(i * i) + " of a table");
  const auto table = table_of(rows);
  workspace_.write("tables/a.parquet", parquet_bytes(*table));
  workspace_.write("tables/b.arrow", arrow_stream_bytes(*table));
  workspace_.write("tables/c.feather", arrow_file_bytes(*table));
  fs::copy(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model",
           workspace_ / "tokenizer.model");
}

std::string FaultScenarios::config(const Json& changes, const std::string& name) const {
  Json all = tiny_changes();
  all["tokenizer"] = {{"model", (workspace_ / "tokenizer.model").string()}};
  all["data"]["train"] = {(workspace_ / "corpus").string()};
  all.merge_patch(changes);
  return workspace_.config(all, name + ".json");
}

RunDir FaultScenarios::done(const Json& changes, const std::string& name) {
  const fs::path folder = workspace_ / ("done-" + name);
  return fs::exists(folder) ? RunDir(folder)
                            : lmtrain::testing::train(config(changes, name), folder);
}

Scenario FaultScenarios::preparation_of(const std::string& name, const std::string& config) {
  const fs::path cache = workspace_ / "cache";
  const std::vector<std::string> command = {"prepare", config};
  fs::remove_all(cache);
  const ProcessResult made = lmtrain(command);
  EXPECT_EQ(made.exit_code, 0) << made;
  return {.name = name,
          .command = command,
          .begin = [cache] { fs::remove_all(cache); },
          .difference =
              [cache, expected = files_of(cache)](const ProcessResult&) {
                return difference_of_files(files_of(cache), expected);
              }};
}

Scenario FaultScenarios::preparation() {
  const Json own = {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 300}}}}}};
  return preparation_of("preparation", config(own, "preparation"));
}

Scenario FaultScenarios::tables() {
  const Json tables = {{"data", {{"train", {(workspace_ / "tables").string()}}}}};
  return preparation_of("tables", config(tables, "tables"));
}

Scenario FaultScenarios::run_of(const std::string& name, const Json& changes) {
  const RunDir expected = done(changes, name);
  const RunDir run(workspace_ / "run");
  return {.name = name,
          .command = {"train", config(changes, name), "--run-dir", run.path(), "--continue"},
          .begin = [run] { fs::remove_all(run.folder()); },
          .difference = [=](const ProcessResult&) { return difference(run, expected); },
          .run = run};
}

Scenario FaultScenarios::train() { return run_of("train", train_changes()); }
Scenario FaultScenarios::train_without_held_out_text() {
  return run_of("unevaluated", {{"data", {{"eval_fraction", 0}}}});
}
Scenario FaultScenarios::restart() { return run_of("restart", restart_changes()); }

Scenario FaultScenarios::rollback() {
  Scenario scenario = run_of("rollback", rollback_changes());
  EXPECT_FALSE(done(rollback_changes(), "rollback").events("rollback").empty());
  return scenario;
}

Scenario FaultScenarios::resume() { return resume_of("resume", Json::object(), 2); }

Scenario FaultScenarios::resume_with_checkpoints() {
  return resume_of("checkpoints", {{"train", {{"steps", 4}}}}, 4);
}

Scenario FaultScenarios::resume_with_trials() {
  const Json changes = {{"restart", {{"seeds", 2}, {"tokens", "25%"}}}, {"train", {{"steps", 4}}}};
  return resume_of("trials", changes, 4);
}

Scenario FaultScenarios::resume_of(const std::string& name, const Json& changes, int64_t step) {
  Scenario scenario = run_of(name, changes);
  const RunDir run = *scenario.run;
  server_.watch({run.folder()});
  scenario.begin();
  const std::vector<std::string> calls = server_.calls_of(scenario.command);
  const auto named =
      std::find(calls.begin(), calls.end(), "rename " + run.checkpoint(step).string());
  scenario.begin();
  const ProcessResult killed_then =
      server_.run(scenario.command, {.call = named - calls.begin() + 1, .how = "kill"});
  EXPECT_EQ(killed_then.signal, SIGKILL) << killed_then;
  const fs::path kept = workspace_ / ("killed-" + name);
  fs::remove_all(kept);
  const RunDir killed = run.copy(kept);
  EXPECT_EQ(killed.checkpoint_steps().back(), step - 1);
  scenario.command = {"resume", run.path()};
  scenario.begin = [=] {
    fs::remove_all(run.folder());
    killed.copy(run.folder());
  };
  return scenario;
}

Scenario FaultScenarios::finished() {
  Scenario scenario = run_of("finished", Json::object());
  const RunDir run = *scenario.run;
  const RunDir expected = done(Json::object(), "finished");
  scenario.command = {"resume", run.path()};
  scenario.begin = [=] {
    fs::remove_all(run.folder());
    expected.copy(run.folder());
  };
  return scenario;
}

Scenario FaultScenarios::branch() {
  const RunDir expected = done(Json::object(), "branched");
  const RunDir branch(workspace_ / "branch");
  const std::vector<std::string> command = {"resume", expected.path(), "--from",
                                            "1",      "--run-dir",     branch.path()};
  return {.name = "branch",
          .command = command,
          .begin = [branch] { fs::remove_all(branch.folder()); },
          .difference = [=](const ProcessResult&) { return difference(branch, expected); },
          .go_on =
              [=] {
                const bool has_begun = fs::exists(branch.folder() / "config.json");
                return has_begun ? std::vector<std::string>{"resume", branch.path()} : command;
              },
          .run = branch};
}

Scenario FaultScenarios::printing(const std::string& name,
                                  const std::vector<std::string>& command) {
  const ProcessResult plain = lmtrain(command);
  EXPECT_EQ(plain.exit_code, 0) << plain;
  EXPECT_NE(plain.out, "");
  return {.name = name, .command = command, .difference = [=](const ProcessResult& result) {
            return result.out == plain.out ? "" : "printed instead of " + plain.out;
          }};
}

Scenario FaultScenarios::eval() {
  return printing("eval", {"eval", done(Json::object(), "read").path(), "--data",
                           (workspace_ / "corpus").string(), "--json"});
}

Scenario FaultScenarios::generate() {
  return printing("generate", {"generate", done(Json::object(), "read").path(), "--prompt", "line",
                               "--max-tokens", "8", "--seed", "1"});
}

}  // namespace lmtrain::testing
