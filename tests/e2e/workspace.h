// A temporary folder to run lmtrain in, a tiny configuration, and readers for the run folders that
// come out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/support.h"
#include "e2e/process.h"

namespace lmtrain::testing {

using Json = nlohmann::ordered_json;

// LMTRAIN_BINARY, else the one that was built beside this test.
std::string lmtrain_binary();

// A run of about half a second on one core: 40 steps of a model of 31 thousand parameters, fp32,
// evaluated every 10 steps and saved every 3. Only the newest checkpoints stay (keep_best 0).
Json tiny_config();

class Workspace {
 public:
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  // Writes a file below the workspace and returns its path.
  std::string write(const std::string& name, std::string_view text) const;
  // tiny_config with `changes` merged into it (null removes a key) and the cache in the workspace.
  std::string config(const Json& changes = Json::object(),
                     const std::string& name = "config.json") const;

 private:
  TemporaryFolder folder_;
};

// lmtrain with one OpenMP thread and no GPU, unless `options` say otherwise: the same bits on every
// machine.
std::vector<std::string> lmtrain_command(const std::vector<std::string>& arguments);
ProcessOptions on_one_core(ProcessOptions options);
ProcessResult lmtrain(const std::vector<std::string>& arguments,
                      const ProcessOptions& options = {});

// Forked, which saves two thirds of a second; started anew where `options` have limits, or other
// variables than torchrun's, which the constructors of libraries may read.
class LmtrainProcess : public Process {
 public:
  explicit LmtrainProcess(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});
};

class RunDir {
 public:
  explicit RunDir(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::string path() const { return folder_.string(); }
  Json status() const;
  // Every line; a test failure when one is torn or no JSON object.
  std::vector<Json> metrics() const;
  std::vector<Json> events() const;
  // Those of `event`.
  std::vector<Json> events(const std::string& event) const;
  // The last update or evaluation line has this step (without any check, for a run under way).
  bool has_metrics_line(const std::string& beginning) const;

  std::vector<int64_t> checkpoint_steps() const;  // ascending
  std::filesystem::path checkpoint(int64_t step) const;
  std::filesystem::path newest_checkpoint() const;
  Json state(int64_t step) const;  // state.json
  bool has_unfinished_checkpoint() const;

  // Copies the whole run folder to `to`.
  RunDir copy(const std::filesystem::path& to) const;

 private:
  std::filesystem::path folder_;
};

// What differs between two finished runs that should be the same to the bit: the files of the last
// checkpoint, but for the name in the model card, and every metrics line but its times. Empty when
// nothing does.
std::string difference(const RunDir& actual, const RunDir& expected);

// Starts `lmtrain train`, which must end with exit code 0.
RunDir train(const std::string& config, const std::filesystem::path& folder);

// `lmtrain resume` of a run.
ProcessResult resume(const RunDir& run);

std::string read_text(const std::filesystem::path& path);
// Every file of a folder with its content, by its path in the folder.
std::map<std::string, std::string> contents(const std::filesystem::path& folder);
// The names of the fields of an object, in order.
std::vector<std::string> field_names(const Json& object);

// Returns the path of a tokenizer with as many pieces as that of tiny_config, trained on other text
// with the workspace's `config.json`.
std::string other_tokenizer(const Workspace& workspace);

}  // namespace lmtrain::testing
