// The manual pages that the program writes about itself: against --help, which lists what there is,
// and against man. What an installation has beside the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

std::string help_of(std::vector<std::string> command) {
  command.emplace_back("--help");
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  return result.out;
}

// The commands that a help lists, and the options.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> commands;
  std::istringstream lines(help);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Subcommands:")) listed = true;
    std::smatch match;
    if (listed && std::regex_search(line, match, std::regex("^  ([a-z]+) ")))
      commands.push_back(match[1]);
  }
  return commands;
}
std::set<std::string> options_in(const std::string& help) {
  std::set<std::string> options;
  std::istringstream lines(help);
  const std::regex option("^  (?:-[a-z],)?(--[a-z-]+)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, option)) options.insert(match[1]);
  }
  return options;
}

std::string as_roff(const std::string& text) {
  return std::regex_replace(text, std::regex("-"), "\\-");
}

fs::path write_manual(const Workspace& workspace) {
  const fs::path folder = workspace / "man1";
  const ProcessResult result =
      lmtrain({"manual", folder.string(), "--prose", LMTRAIN_SOURCE_DIR "/docs/cli.md"});
  EXPECT_EQ(result.exit_code, 0) << result;
  return folder;
}

// Expects an item for each option that `command` has by its help, and for those of its commands.
void expect_options(const std::string& page, const std::vector<std::string>& command) {
  const std::string help = help_of(command);
  const std::set<std::string> options = options_in(help);
  EXPECT_TRUE(options.count("--help")) << help;
  for (const std::string& option : options)
    EXPECT_NE(page.find("\\fB" + as_roff(option) + "\\fR"), std::string::npos)
        << option << " of " << command.back() << "\n"
        << page;
  for (const std::string& below : commands_in(help)) {
    std::vector<std::string> path = command;
    path.push_back(below);
    EXPECT_NE(page.find(".SS lmtrain " + command.back() + " " + below + "\n"), std::string::npos);
    expect_options(page, path);
  }
}

TEST(Manual, HasEveryCommandAndEveryOption) {
  const Workspace workspace;
  const fs::path folder = write_manual(workspace);
  const std::string help = help_of({});
  const std::vector<std::string> commands = commands_in(help);
  ASSERT_GE(commands.size(), 12u) << help;
  const std::string program = read_text(folder / "lmtrain.1");
  for (const char* option : {"\\fB\\-\\-help\\fR", "\\fB\\-\\-version\\fR"})
    EXPECT_NE(program.find(option), std::string::npos) << program;
  for (const std::string& command : commands) {
    EXPECT_NE(program.find("\\fBlmtrain\\-" + command + "\\fR(1)\n"), std::string::npos) << command;
    const std::string page = read_text(folder / ("lmtrain-" + command + ".1"));
    for (const char* heading : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"})
      EXPECT_NE(page.find(std::string(".SH ") + heading + "\n"), std::string::npos)
          << command << ": " << heading;
    EXPECT_NE(page.find("\nlmtrain " + command), std::string::npos) << "no synopsis of " << command;
    expect_options(page, {command});
  }
  const auto pages = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  EXPECT_EQ(static_cast<size_t>(pages), commands.size() + 1) << "one more, of the program";
}

TEST(Manual, SaysWhatThePageOfCommandsSays) {
  const Workspace workspace;
  const fs::path folder = write_manual(workspace);
  const std::string program = read_text(folder / "lmtrain.1");
  for (const char* part : {".SH EXIT STATUS\n", ".SH ENVIRONMENT\n", ".SH WARNINGS\n",
                           "\n.TP\n75\nstopped by", "\\fBOMP_NUM_THREADS\\fR\n"})
    EXPECT_NE(program.find(part), std::string::npos) << part << "\n" << program;
  const std::string train = read_text(folder / "lmtrain-train.1");
  EXPECT_NE(train.find(".SS The screen of a run\n"), std::string::npos) << train;
  EXPECT_NE(train.find("\nstep 120/2450"), std::string::npos) << "a fenced block\n" << train;
  for (const fs::directory_entry& page : fs::directory_iterator(folder)) {
    const std::string text = read_text(page.path());
    for (const char* markup : {"`", "**", "](", "\n|"})
      EXPECT_EQ(text.find(markup), std::string::npos) << markup << " in " << page.path();
  }
}

TEST(Manual, IsUnderstoodByMan) {
  const Workspace workspace;
  for (const fs::directory_entry& page : fs::directory_iterator(write_manual(workspace))) {
    const std::string check =
        "command -v man >/dev/null && command -v groff >/dev/null || exit 0; "
        "LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l " +
        page.path().string() + " && lexgrog " + page.path().string() + " >&2";
    const ProcessResult result = Process({"/bin/sh", "-c", check}).wait();
    EXPECT_EQ(result.exit_code, 0) << result;
    // lexgrog says the line that `man -k` finds; a warning would be a line more.
    if (!result.out.empty()) {
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
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
  for (const char* file :
       {"man/man1/lmtrain.1", "man/man1/lmtrain-train.1", "bash-completion/completions/lmtrain",
        "zsh/site-functions/_lmtrain", "fish/vendor_completions.d/lmtrain.fish",
        "doc/lmtrain/LICENSE", "doc/lmtrain/docs/config.md",
        "doc/lmtrain/examples/configs/tiny.json", "doc/lmtrain/examples/data/sample"}) {
    EXPECT_TRUE(fs::exists(share / file)) << file;
  }
  EXPECT_TRUE(fs::exists(workspace / "usr/bin/lmtrain"));
}

}  // namespace
}  // namespace lmtrain::testing
