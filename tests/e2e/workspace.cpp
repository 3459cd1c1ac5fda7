#include "e2e/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "e2e/small_disk.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

std::vector<Json> read_lines(const fs::path& path) {
  std::vector<Json> lines;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) {
    EXPECT_FALSE(text.eof()) << path << ": the last line is torn: " << line;
    lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
    EXPECT_TRUE(lines.back().is_object()) << path << ":" << lines.size() << ": " << line;
  }
  return lines;
}

// What depends on how fast the machine was.
bool is_time(const std::string& field) {
  return field == "elapsed" || field == "tokens_per_second" || field == "mfu";
}

// What decides how a run goes on: not which run it is. An evaluation of the last step that was
// interrupted and made after a resume is in metrics.jsonl and status.json alone, and the history of
// evaluations lacks it.
Json deciding(Json state) {
  for (const char* field : {"run", "elapsed", "evaluations"}) state.erase(field);
  return state;
}

// A model card without its two lines with the name of the run: a branch has a name of its own.
std::string without_name(const std::string& card) {
  std::string kept;
  std::istringstream lines(card);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("# ") && !line.starts_with("- name: ")) kept += line + "\n";
  return kept;
}

}  // namespace

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string lmtrain_binary() {
  const char* chosen = std::getenv("LMTRAIN_BINARY");
  return chosen != nullptr ? chosen : LMTRAIN_BUILT_BINARY;
}

Json tiny_config() {
  return Json::parse(R"({
    "threads": 1,
    "precision": "fp32",
    "tokenizer": { "model": "tests/reference/tokenizer/tokenizer.model" },
    "data": { "train": ["data/sample"], "eval": ["data/sample.jsonl"] },
    "sequence": { "max_length": 64, "min_length": 16 },
    "model": { "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
               "num_attention_heads": 4, "num_key_value_heads": 2 },
    "batch": { "tokens": 256 },
    "optimizer": { "lr": 3e-3 },
    "train": { "steps": 40 },
    "eval": { "every": "10 steps" },
    "checkpoint": { "every": "3 steps", "keep_best": 0 }
  })");
}

std::string Workspace::write(const std::string& name, std::string_view text) const {
  const fs::path path = folder_ / name;
  fs::create_directories(path.parent_path());
  replace_file(path, text);
  return path.string();
}

std::string Workspace::config(const Json& changes, const std::string& name) const {
  Json config = tiny_config();
  config["data"]["cache_dir"] = (folder_ / "cache").string();
  config.merge_patch(changes);
  return write(name, config.dump(2) + "\n");
}

std::vector<std::string> lmtrain_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {lmtrain_binary()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

ProcessOptions on_one_core(ProcessOptions options) {
  options.env.emplace("OMP_NUM_THREADS", "1");
  options.env.emplace("CUDA_VISIBLE_DEVICES", "");
  return options;
}

namespace {

std::unique_ptr<ForkServer>& fork_server() {
  static std::unique_ptr<ForkServer> server;
  return server;
}

// lmtrain alone reads these variables; the constructors of libraries may read others.
bool is_of_torchrun(const std::pair<const std::string, std::string>& variable) {
  constexpr std::array<std::string_view, 5> kNames{"RANK", "LOCAL_RANK", "WORLD_SIZE",
                                                   "MASTER_ADDR", "MASTER_PORT"};
  return std::ranges::find(kNames, variable.first) != kNames.end();
}

ProcessOptions forked(ProcessOptions options) {
  const bool plain = std::ranges::all_of(options.env, is_of_torchrun) && !options.file_size &&
                     !options.address_space;
  options = on_one_core(std::move(options));
  if (!plain) return options;
  if (fork_server() == nullptr) {
    fork_server() =
        std::make_unique<ForkServer>(lmtrain_binary(), LMTRAIN_FORK_LIBRARY, on_one_core({}).env);
    SmallDisk::on_own_mounts = [] { fork_server().reset(); };
  }
  options.server = fork_server().get();
  return options;
}

}  // namespace

LmtrainProcess::LmtrainProcess(const std::vector<std::string>& arguments,
                               const ProcessOptions& options)
    : Process(lmtrain_command(arguments), forked(options)) {}

ProcessResult lmtrain(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  return LmtrainProcess(arguments, options).wait();
}

Json RunDir::status() const {
  return Json::parse(read_text(folder_ / "status.json"), nullptr, false);
}
std::vector<Json> RunDir::metrics() const { return read_lines(folder_ / "metrics.jsonl"); }
std::vector<Json> RunDir::events() const { return read_lines(folder_ / "events.jsonl"); }

std::vector<Json> RunDir::events(const std::string& event) const {
  std::vector<Json> chosen;
  for (const Json& line : events()) {
    if (line.value("event", "") == event) chosen.push_back(line);
  }
  return chosen;
}

bool RunDir::has_metrics_line(const std::string& beginning) const {
  return ("\n" + read_text(folder_ / "metrics.jsonl")).find("\n" + beginning) != std::string::npos;
}

std::vector<int64_t> RunDir::checkpoint_steps() const {
  std::vector<int64_t> steps;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints", missing)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_")) steps.push_back(std::stoll(name.substr(5)));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path RunDir::checkpoint(int64_t step) const {
  std::string digits = std::to_string(step);
  digits.insert(0, 8 - std::min<size_t>(8, digits.size()), '0');
  return folder_ / "checkpoints" / ("step_" + digits);
}

fs::path RunDir::newest_checkpoint() const {
  const std::vector<int64_t> steps = checkpoint_steps();
  EXPECT_FALSE(steps.empty()) << "no checkpoint in " << folder_;
  return steps.empty() ? folder_ : checkpoint(steps.back());
}

Json RunDir::state(int64_t step) const {
  return Json::parse(read_text(checkpoint(step) / "state.json"), nullptr, false);
}

bool RunDir::has_unfinished_checkpoint() const {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints", missing)) {
    if (entry.path().filename().string().starts_with(".tmp-")) return true;
  }
  return false;
}

RunDir RunDir::copy(const fs::path& to) const {
  fs::copy(folder_, to, fs::copy_options::recursive);
  return RunDir(to);
}

std::string difference(const RunDir& actual, const RunDir& expected) {
  std::ostringstream found;
  if (actual.checkpoint_steps().empty() || expected.checkpoint_steps().empty()) {
    return "a run without a checkpoint";
  }
  const int64_t step = expected.checkpoint_steps().back();
  if (actual.checkpoint_steps().back() != step) {
    found << "last checkpoints are of steps " << actual.checkpoint_steps().back() << " and " << step
          << "\n";
    return found.str();
  }
  std::set<std::string> names;
  for (const RunDir* run : {&actual, &expected}) {
    for (const auto& entry : fs::directory_iterator(run->checkpoint(step))) {
      names.insert(entry.path().filename());
    }
  }
  for (const std::string& name : names) {
    if (name == "manifest.json") continue;  // holds the checksum of state.json
    if (name == "state.json") {
      if (deciding(actual.state(step)) == deciding(expected.state(step))) continue;
    } else if (name == "README.md") {
      if (without_name(read_text(actual.checkpoint(step) / name)) ==
          without_name(read_text(expected.checkpoint(step) / name)))
        continue;
    } else if (read_text(actual.checkpoint(step) / name) ==
               read_text(expected.checkpoint(step) / name)) {
      continue;
    }
    found << name << " of the last checkpoint differs\n";
  }

  const std::vector<Json> lines = actual.metrics();
  const std::vector<Json> wanted = expected.metrics();
  if (lines.size() != wanted.size()) {
    found << "metrics.jsonl has " << lines.size() << " lines instead of " << wanted.size() << "\n";
  }
  for (size_t i = 0; i < std::min(lines.size(), wanted.size()); ++i) {
    for (const auto& [field, value] : wanted[i].items()) {
      if (is_time(field) || lines[i].value(field, Json()) == value) continue;
      found << "metrics.jsonl:" << i + 1 << ": " << field << " is " << lines[i].value(field, Json())
            << " instead of " << value << "\n";
      return found.str();  // one is enough: all later ones follow from it
    }
  }
  return found.str();
}

RunDir train(const std::string& config, const fs::path& folder) {
  const ProcessResult result = lmtrain({"train", config, "--run-dir", folder.string()});
  if (result.exit_code != 0) {
    std::ostringstream message;
    message << "the run that the test stands on failed: " << result;
    throw std::runtime_error(message.str());
  }
  return RunDir(folder);
}

ProcessResult resume(const RunDir& run) { return lmtrain({"resume", run.path()}); }

std::string other_tokenizer(const Workspace& workspace) {
  const ProcessResult result = lmtrain(
      {"prepare",
       workspace.config({{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 384}}}}},
                         {"data",
                          {{"train", {LMTRAIN_SOURCE_DIR "/LICENSE"}},
                           {"cache_dir", (workspace / "other").string()}}}})});
  EXPECT_EQ(result.exit_code, 0) << result;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(workspace / "other"))
    if (entry.path().filename() == "tokenizer.model") return entry.path().string();
  return "none was trained";
}

std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder)] = read_text(entry.path());
  }
  return files;
}

std::vector<std::string> field_names(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

}  // namespace lmtrain::testing
