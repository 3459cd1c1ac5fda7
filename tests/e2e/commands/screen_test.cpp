// What a person sees: on terminals of different widths, in a file, and in the run's log.
#include <algorithm>
#include <csignal>
#include <regex>
#include <sstream>

#include "e2e/references.h"
#include "e2e/terminal.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

ProcessOptions on_terminal(unsigned short columns) {
  ProcessOptions options;
  options.err_terminal = columns;
  options.env["TERM"] = "xterm";
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
    ASSERT_EQ(steps.size(), 40U) << result;
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

// Two steps, evaluated before, between and after them on 400 KB of text.
std::string much_evaluated(const Workspace& workspace) {
  std::string text;
  for (int i = 0; text.size() < 400'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  return workspace.config({{"data", {{"eval", {workspace.write("eval.txt", text)}}}},
                           {"eval", {{"every", "1 step"}, {"tokens", 1'000'000}}},
                           {"train", {{"steps", 2}}}});
}

// Waits until the first evaluation of a run on a terminal shows its progress, which is written at
// most five times a second: after each pause it is due at the next batch.
bool wait_for_evaluation(LmtrainProcess& process, const RunDir& run) {
  const fs::path events = run.folder() / "events.jsonl";
  return process.wait_until([&] { return read_text(events).ends_with("\n"); }) &&
         process.wait_until([&] {
           process.send(SIGSTOP);
           sleep_ms(250);
           process.send(SIGCONT);
           sleep_ms(5);
           return process.err().find("\033[Kevaluating  ") != std::string::npos;
         });
}

TEST(Screen, AnEvaluationShowsItsProgressAndThenItsResult) {
  if (!Terminal::available()) GTEST_SKIP() << "this system has no pseudo-terminals";
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", much_evaluated(workspace), "--run-dir", run.path()},
                         on_terminal(80));
  EXPECT_TRUE(wait_for_evaluation(process, run)) << process.err();
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  const std::vector<std::string> lines = screen(result.err);
  EXPECT_EQ(starting_with(lines, "evaluating").size(), 0U) << result;
  EXPECT_EQ(starting_with(lines, "step 0  held-out loss ").size(), 1U) << result;
}

// The first evaluation takes two seconds at least, since it is stopped for so long, and two more
// are ahead of the first step.
TEST(Screen, TheTimeLeftCountsEvaluationsAsTheyHaveBeen) {
  if (!Terminal::available()) GTEST_SKIP() << "this system has no pseudo-terminals";
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", much_evaluated(workspace), "--run-dir", run.path()},
                         on_terminal(200));
  EXPECT_TRUE(wait_for_evaluation(process, run)) << process.err();
  process.send(SIGSTOP);
  sleep_ms(2000);
  process.send(SIGCONT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  const std::vector<std::string> steps = starting_with(drafts(result.err), "step 1/2 ");
  ASSERT_FALSE(steps.empty()) << result;
  std::smatch left;
  ASSERT_TRUE(std::regex_search(steps[0], left, std::regex("(?:(\\d+)m)?(\\d+)s left$")))
      << steps[0];
  const int seconds = (left[1].matched ? 60 * std::stoi(left[1]) : 0) + std::stoi(left[2]);
  EXPECT_GE(seconds, 4) << steps[0];
}

TEST(Screen, EvaluationsTakeASmallPartOfTheRunByDefault) {
  const Workspace workspace;
  // Enough of the sample is held out for the number to matter.
  const std::string config =
      workspace.config({{"data", {{"train", {"data/sample.jsonl"}}, {"eval", {"data/sample"}}}},
                        {"train", {{"steps", 480}}},
                        {"eval", {{"every", 0}}},
                        {"checkpoint", {{"every", 0}}}});
  const ProcessResult planned = lmtrain({"plan", config, "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned;
  const Json plan = Json::parse(planned.out);
  EXPECT_LE(plan.at("eval_share"), 0.055);  // whole documents
  const RunDir run = train(config, workspace / "run");
  const Json written = Json::parse(read_text(run.folder() / "config.json"));
  // A third of a step's cost a token, two evaluations: 480 · 256 · 0.05 · 3 / 2.
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
