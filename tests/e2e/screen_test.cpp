// What a person sees: on terminals of different widths, in a file, and in the run's log.
#include <algorithm>
#include <regex>
#include <sstream>

#include "e2e/references.h"
#include "e2e/terminal.h"

namespace lmtrain::testing {
namespace {

ProcessOptions on_terminal(unsigned short columns) {
  ProcessOptions options;
  options.err_terminal = columns;
  return options;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Every state that a line was in: what was written before it was erased or ended.
std::vector<std::string> drafts(std::string text) {
  for (size_t at = 0; (at = text.find("\r\033[K", at)) != std::string::npos;)
    text.replace(at, 4, "\n");
  std::erase(text, '\r');
  return lines_of(text);
}

std::vector<std::string> starting_with(const std::vector<std::string>& lines,
                                       const std::string& beginning) {
  std::vector<std::string> chosen;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(chosen),
               [&](const std::string& line) { return line.starts_with(beginning); });
  return chosen;
}

bool is_status(const std::string& line) { return line.starts_with("{\"state\":\"done\""); }

TEST(Screen, ALineOfAStepFitsTheTerminalAndSaysTheTimeLeft) {
  if (!Terminal::available()) GTEST_SKIP() << "this system has no pseudo-terminals";
  const Reference& made = reference();
  for (const unsigned columns : {40U, 50U, 80U, 200U}) {
    const ProcessResult result =
        lmtrain({"train", made.config, "--run-dir", made.fresh("terminal").string()},
                on_terminal(static_cast<unsigned short>(columns)));
    ASSERT_EQ(result.exit_code, 0) << result;
    std::vector<std::string> steps = drafts(result.err);
    std::erase_if(steps, [](const std::string& line) {
      return !std::regex_search(line, std::regex("^step \\d+/40  .* left$"));
    });
    EXPECT_EQ(steps.size(), 40U) << result;
    for (const std::string& line : steps) {
      EXPECT_LT(line.size(), columns) << line;
      if (columns < 50) continue;
      EXPECT_TRUE(std::regex_search(line, std::regex("^step \\d+/40  [\\d.]+%  loss [\\d.]+  ")))
          << line;
    }
    if (columns == 200) {
      EXPECT_TRUE(std::regex_match(
          steps.back(),
          std::regex("step 40/40  100\\.0%  loss \\d\\.\\d{4}  lr \\d\\.\\d\\de-\\d\\d  length "
                     "\\d+  [\\d.]+K? tokens/s  [\\dms]+ elapsed  [\\dms]+ left")))
          << steps.back();
    }
    // Of the steps only the tenth ones stay; nothing of a passing line is left over.
    EXPECT_EQ(starting_with(screen(result.err), "step ").size(), 4U + 5U) << result;
  }
}

TEST(Screen, InAFileTheLineIsWhole) {
  const Reference& made = reference();
  const ProcessResult result =
      lmtrain({"train", made.config, "--run-dir", made.fresh("file").string()});
  const auto steps = starting_with(lines_of(result.err), "step ");
  const std::regex whole(
      "step (1|2|3|4)0/40  [\\d.]+%  loss .*  lr .*  length \\d+  .* tokens/s  [\\dms]+ elapsed  "
      "[\\dms]+ left");
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(),
                          [&](const std::string& line) { return std::regex_match(line, whole); }),
            4)
      << result;
}

TEST(Screen, TheEndIsASummaryAndJsonIsForPrograms) {
  if (!Terminal::available()) GTEST_SKIP() << "this system has no pseudo-terminals";
  const Reference& made = reference();
  ProcessOptions terminal = on_terminal(100);
  terminal.out_terminal = terminal.err_terminal;
  const RunDir run(made.fresh("end"));
  const ProcessResult result = lmtrain({"train", made.config, "--run-dir", run.path()}, terminal);
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "");
  const std::vector<std::string> lines = screen(result.err);
  EXPECT_EQ(starting_with(lines, "run        40 steps, ").size(), 1U) << result;
  EXPECT_EQ(starting_with(lines, "loss       ").size(), 1U) << result;
  EXPECT_EQ(starting_with(lines, "checkpoint " + run.checkpoint(40).string()).size(), 1U) << result;
  const auto further =
      std::find(lines.begin(), lines.end(),
                "           lmtrain train CONFIG.json --run-dir NEW --set init_from=" + run.path());
  EXPECT_NE(further, lines.end()) << result;

  const ProcessResult asked =
      lmtrain({"resume", run.path(), "--set", "train.steps=42", "--json"}, terminal);
  ASSERT_EQ(asked.exit_code, 0) << asked;
  const std::vector<std::string> printed = lines_of(asked.out);
  EXPECT_EQ(std::count_if(printed.begin(), printed.end(), is_status), 1) << asked;
}

TEST(Screen, TheLogKeepsWhatAPersonReads) {
  if (!Terminal::available()) GTEST_SKIP() << "this system has no pseudo-terminals";
  const Reference& made = reference();
  const RunDir run(made.fresh("logged"));
  const ProcessResult result =
      lmtrain({"train", made.config, "--run-dir", run.path()}, on_terminal(50));
  ASSERT_EQ(result.exit_code, 0) << result;
  const std::regex stamp("^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z ");
  std::vector<std::string> log;
  for (const std::string& line : lines_of(read_text(run.folder() / "train.log"))) {
    EXPECT_TRUE(std::regex_search(line, stamp)) << line;
    log.push_back(std::regex_replace(line, stamp, ""));
  }
  EXPECT_EQ(starting_with(log, "data: train ").size(), 1U);  // from before there was a folder
  EXPECT_EQ(starting_with(log, "model ").size(), 1U);
  const auto steps = starting_with(log, "step ");
  ASSERT_EQ(steps.size(), 4U + 5U);
  EXPECT_NE(steps[1].find(" elapsed  "), std::string::npos)
      << "the terminal was narrow: " << steps[1];
  EXPECT_EQ(starting_with(log, "checkpoint ").size(), 1U);

  // The error that ends a process is its last line.
  const ProcessResult failed = lmtrain({"resume", run.path(), "--set", "train.steps=80", "--set",
                                        "optimizer.lr=1e30", "--set", "guard.on_nonfinite=stop"});
  ASSERT_EQ(failed.exit_code, 4) << failed;
  const std::string text = read_text(run.folder() / "train.log");
  const std::string last = lines_of(text).back();
  EXPECT_TRUE(std::regex_replace(last, stamp, "").starts_with("lmtrain: step 4")) << last;
}

TEST(Screen, ALogThatCannotBeWrittenIsOneWarning) {
  const Reference& made = reference();
  const RunDir run(made.fresh("unlogged"));
  std::filesystem::create_directories(run.folder() / "train.log");
  const ProcessResult result = lmtrain({"train", made.config, "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  const auto warnings = starting_with(lines_of(result.err), "warning: lines like this one");
  ASSERT_EQ(warnings.size(), 1U) << result;
  EXPECT_NE(warnings[0].find((run.folder() / "train.log").string()), std::string::npos) << result;
}

TEST(Screen, EvaluationsAreATenthOfTheRunByDefault) {
  const Workspace workspace;
  // Enough of the sample is held out for the number to matter.
  const std::string config =
      workspace.config({{"data", {{"train", {"data/sample.jsonl"}}, {"eval", {"data/sample"}}}},
                        {"train", {{"steps", 600}}},
                        {"eval", {{"every", "25%"}}},
                        {"checkpoint", {{"every", 0}}}});
  const ProcessResult planned = lmtrain({"plan", config, "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned;
  const Json plan = Json::parse(planned.out);
  EXPECT_LE(plan.at("eval_share"), 0.1);
  const RunDir run = train(config, workspace / "run");
  const Json written = Json::parse(read_text(run.folder() / "config.json"));
  // A third of a step's cost a token, five evaluations: 600 · 256 · 0.1 · 3 / 5, or the least.
  EXPECT_EQ(written.at("eval").at("tokens"), 9216);
  EXPECT_GT(plan.at("eval_tokens"), 0);
  // The same documents, by the same number.
  const ProcessResult again = lmtrain({"eval", run.path(), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again;
  EXPECT_EQ(Json::parse(again.out).at("tokens"), plan.at("eval_tokens"));
  const double loss = Json::parse(again.out).at("loss");
  EXPECT_NEAR(loss, run.status().at("eval_loss").get<double>(), 1e-5 * loss);
}

}  // namespace
}  // namespace lmtrain::testing
