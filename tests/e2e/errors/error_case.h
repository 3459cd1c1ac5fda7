// One row of the tests Errors: a command that must fail, its exit code and what its message names.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "e2e/workspace.h"

namespace lmtrain::testing {

using Arguments = std::vector<std::string>;

struct ErrorCase {
  std::string name;
  int exit_code = 0;
  std::vector<std::string> parts;  // of the message: the location, what is wrong, the cure
  std::function<Arguments(const Workspace&)> prepare;
};

inline std::ostream& operator<<(std::ostream& out, const ErrorCase& test) {
  return out << test.name;
}

// Its test is in errors_test.cpp; each file beside it instantiates it with a list of cases.
class Errors : public ::testing::TestWithParam<ErrorCase> {};

inline std::string case_name(const ::testing::TestParamInfo<ErrorCase>& test) {
  return test.param.name;
}

inline Arguments train_command(const Workspace& workspace, const std::string& config) {
  return {"train", config, "--run-dir", (workspace / "run").string()};
}

// train with tiny_config changed.
inline ErrorCase config_case(const std::string& name, int exit_code, const Json& changes,
                             const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [changes](const Workspace& workspace) {
            return train_command(workspace, workspace.config(changes));
          }};
}

// A command that needs no files of its own.
inline ErrorCase command_case(const std::string& name, int exit_code, const Arguments& arguments,
                              const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [arguments](const Workspace&) { return arguments; }};
}

// A small Llama in transformers' format, with its tokenizer.
inline const std::filesystem::path kHfFolder = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";

// Rewrites a JSON file.
inline void change_json(const std::filesystem::path& path,
                        const std::function<void(Json&)>& change) {
  Json json = Json::parse(read_text(path));
  change(json);
  replace_file(path, json.dump(2));
}

}  // namespace lmtrain::testing
