// What the scripts of `lmtrain completion` complete; bash is asked, the others only where they are
// installed.
#include <gtest/gtest.h>

#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

std::string script_of(const std::string& shell) {
  const ProcessResult result = lmtrain({"completion", shell});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err, "") << result;
  return result.out;
}

// The words that bash offers for the last of `line`, one a line, in a folder with the script and
// own.json.
std::string offered(const Workspace& workspace, const std::string& line) {
  ProcessOptions options;
  options.cwd = workspace / "";
  const std::string ask = "set -eu; source ./lmtrain.bash; compopt() { :; }; COMP_WORDS=(" + line +
                          "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lmtrain; "
                          "printf '%s\\n' \"${COMPREPLY[@]}\"";
  Process bash({"/bin/bash", "-c", ask}, options);
  const ProcessResult result = bash.wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  return result.out;
}

TEST(Completion, OfBashKnowsCommandsOptionsKeysAndFiles) {
  const Workspace workspace;
  workspace.write("own.json", "{}");
  workspace.write("lmtrain.bash", script_of("bash"));
  EXPECT_EQ(offered(workspace, "lmtrain tr"), "train\n");
  EXPECT_EQ(offered(workspace, "lmtrain train --dr"), "--dry-run\n");
  EXPECT_EQ(offered(workspace, "lmtrain train ow"), "own.json\n");
  EXPECT_EQ(offered(workspace, "lmtrain train own.json --set optimizer.l"),
            "optimizer.lr=\noptimizer.lr_factor=\n");
  EXPECT_EQ(offered(workspace, "lmtrain config sh"), "show\n");
  EXPECT_EQ(offered(workspace, "lmtrain config show --j"), "--json\n");
  EXPECT_EQ(offered(workspace, "lmtrain config explain clip."), "clip.type\nclip.max\n");
  // Every command is offered, and keys that have no effect are not.
  const std::string commands = offered(workspace, "lmtrain ''");
  for (const char* command : {"train\n", "resume\n", "eval\n", "plan\n", "completion\n"})
    EXPECT_NE(commands.find(command), std::string::npos) << commands;
  EXPECT_EQ(offered(workspace, "lmtrain train --set digest").find("digest"), std::string::npos);
}

TEST(Completion, ScriptsAreRightForTheirShells) {
  const Workspace workspace;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = workspace.write(shell, script_of(shell));
    for (const char* word : {"dry-run", "optimizer.lr", "generate"})
      EXPECT_NE(read_text(script).find(word), std::string::npos) << shell;
    const std::string check =
        "command -v " + shell + " >/dev/null || exit 0; " + shell + " -n " + script;
    const ProcessResult result = Process({"/bin/sh", "-c", check}).wait();
    EXPECT_EQ(result.exit_code, 0) << result;
  }
  EXPECT_EQ(lmtrain({"completion", "tcsh"}).exit_code, 2);
  EXPECT_EQ(lmtrain({"completion"}).exit_code, 2);
}

}  // namespace
}  // namespace lmtrain::testing
