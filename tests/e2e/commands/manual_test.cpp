// What an installation has beside the program, and the manual pages of a package.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/text.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// By cmake/write_manual.cmake, as cpack does it.
TEST(Manual, IsMadeFromTheHelpOfEachCommand) {
  if (Process({"/bin/sh", "-c", "command -v help2man"}).wait().exit_code != 0)
    GTEST_SKIP() << "there is no help2man";
  const Workspace workspace;
  const fs::path folder = workspace / "man1";
  const ProcessResult written =
      Process({LMTRAIN_CMAKE, "-D", str("PROGRAM=", lmtrain_binary()), "-D",
               "FOLDER=" + folder.string(), "-P", LMTRAIN_SOURCE_DIR "/cmake/write_manual.cmake"})
          .wait();
  ASSERT_EQ(written.exit_code, 0) << written;
  EXPECT_NE(read_text(folder / "lmtrain.1").find("lmtrain-resume(1)"), std::string::npos);
  const std::string train = read_text(folder / "lmtrain-train.1");
  for (const char* part : {".SH NAME\n", ".SH SYNOPSIS\n", "\\fB\\-\\-run\\-dir\\fR"})
    EXPECT_NE(train.find(part), std::string::npos) << part << "\n" << train;
}

// A machine without help2man makes packages too.
TEST(Manual, IsLeftOutWithoutHelp2man) {
  const Workspace workspace;
  const fs::path folder = workspace / "man1";
  const ProcessResult written =
      Process({LMTRAIN_CMAKE, "-D", "HELP2MAN=HELP2MAN-NOTFOUND", "-D",
               "CMAKE_SYSTEM_PROGRAM_PATH=", "-D", "CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF",
               "-D", "CMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", "-D",
               str("PROGRAM=", lmtrain_binary()), "-D", "FOLDER=" + folder.string(), "-P",
               LMTRAIN_SOURCE_DIR "/cmake/write_manual.cmake"})
          .wait();
  ASSERT_EQ(written.exit_code, 0) << written;
  EXPECT_NE((written.out + written.err).find("no manual pages: there is no help2man"),
            std::string::npos)
      << written;
  EXPECT_FALSE(fs::exists(folder));
}

TEST(Manual, IsInstalledWithCompletionsAndLicences) {
  const Workspace workspace;
  const fs::path build = fs::path(lmtrain_binary()).parent_path();
  const ProcessResult installed =
      Process({LMTRAIN_CMAKE, "--install", build.string(), "--component", "program", "--prefix",
               (workspace / "usr").string()})
          .wait();
  ASSERT_EQ(installed.exit_code, 0) << installed;
  const fs::path share = workspace / "usr/share";
  for (const char* file : {"bash-completion/completions/lmtrain", "zsh/site-functions/_lmtrain",
                           "fish/vendor_completions.d/lmtrain.fish", "doc/lmtrain/LICENSE",
                           "doc/lmtrain/docs/config.md", "doc/lmtrain/examples/configs/tiny.json",
                           "doc/lmtrain/examples/data/sample"}) {
    EXPECT_TRUE(fs::exists(share / file)) << file;
  }
  EXPECT_TRUE(fs::exists(workspace / "usr/bin/lmtrain"));
}

}  // namespace
}  // namespace lmtrain::testing
