// Everything that can be wrong with what lmtrain is given: the exit code says whose fault it is,
// and the message names the location and a cure. One row a case; here are those of the command line
// and of paths to write, and beside this file the others.
#include <cstdlib>
#include <iostream>

#include "e2e/errors/error_case.h"

namespace lmtrain::testing {

namespace fs = std::filesystem;

TEST_P(Errors, NameLocationAndCure) {
  const ErrorCase& test = GetParam();
  const Workspace workspace;
  const ProcessResult result = lmtrain(test.prepare(workspace));
  EXPECT_EQ(result.exit_code, test.exit_code) << result;
  EXPECT_EQ(result.out, "") << result;
  for (const std::string& part : test.parts) {
    EXPECT_NE(result.err.find(part), std::string::npos) << '"' << part << "\" is not in\n"
                                                        << result.err;
  }
  for (const char* bad : {"internal error", "what():", "terminate called", "c10::", "nlohmann"}) {
    EXPECT_EQ(result.err.find(bad), std::string::npos) << result.err;
  }
  EXPECT_FALSE(fs::exists(workspace / "run/config.json")) << "a run was begun";
  if (std::getenv("LMTRAIN_SHOW_ERRORS") != nullptr) {
    std::cout << test.name << ": " << result.err << std::flush;
  }
}

namespace {

std::vector<ErrorCase> usage_cases() {
  return {
      command_case("NoCommand", 2, {}, {"--help"}),
      command_case("UnknownCommand", 2, {"trian", "x"},
                   {"trian", "did you mean \"train\"", "--help"}),
      command_case("UnknownOption", 2, {"train", "configs/tiny.json", "--frob"},
                   {"--frob", "--help"}),
      command_case("TrainWithoutConfig", 2, {"train"}, {"config", "--help"}),
      command_case("ExplainUnknown", 2, {"config", "explain", "optimizer.lrr"},
                   {"optimizer.lrr", "optimizer.lr"}),
      command_case("ShowMissing", 2, {"config", "show", "no-such.json"}, {"no-such.json"}),
      command_case("PrepareMissing", 2, {"prepare", "no-such.json"}, {"no-such.json"}),
      {"RunFolderBelowAFile",
       5,
       {"cannot create the folder", "file/run"},
       [](const Workspace& workspace) {
         workspace.write("file", "");
         return Arguments{"train", workspace.config(), "--run-dir",
                          (workspace / "file/run").string()};
       }},
      {"RunFolderIsAFile",
       5,
       {"file"},
       [](const Workspace& workspace) {
         return Arguments{"train", workspace.config(), "--run-dir", workspace.write("file", "")};
       }},
      {"RunFolderInProc",
       5,
       {"/proc/lmtrain"},
       [](const Workspace& workspace) {
         return Arguments{"train", workspace.config(), "--run-dir", "/proc/lmtrain"};
       }},
      {"CacheIsAFile",
       5,
       {"cannot create the folder", "file"},
       [](const Workspace& workspace) {
         const std::string file = workspace.write("file", "");
         return train_command(workspace, workspace.config({{"data", {{"cache_dir", file}}}}));
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Usage, Errors, ::testing::ValuesIn(usage_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
