#include "runlog/report.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

StepReport a_step() {
  StepReport report;
  report.step = 120;
  report.steps = 2450;
  report.share = 0.049;
  report.loss = 5.12344;
  report.lr = 2.95e-3;
  report.length = 256;
  report.tokens_per_second = 31'800;
  report.elapsed = 43;
  report.left = 845;
  return report;
}

TEST(Report, LineOfAStep) {
  EXPECT_EQ(whole_line(step_line(a_step())),
            "step 120/2450  4.9%  loss 5.1234  lr 2.95e-03  length 256  31.8K tokens/s  43s "
            "elapsed  14m05s left");
  EXPECT_EQ(fitted_line(step_line(a_step()), 79),
            "step 120/2450  4.9%  loss 5.1234  lr 2.95e-03  31.8K tokens/s  14m05s left");
  EXPECT_EQ(fitted_line(step_line(a_step()), 49), "step 120/2450  4.9%  loss 5.1234  14m05s left");
  EXPECT_EQ(fitted_line(step_line(a_step()), 30), "step 120/2450  14m05s left");
  // Tokens may take more steps than were expected.
  StepReport longer = a_step();
  longer.step = 2451;
  longer.share = 1.0001;
  EXPECT_EQ(fitted_line(step_line(longer), 50), "step 2451/2451  100.0%  loss 5.1234  14m05s left");
}

TEST(Report, EndOfARun) {
  EndReport report;
  report.steps = 2450;
  report.tokens = 20'000'000;
  report.training = 770;
  report.evaluating = 62;
  report.saving = 3;
  report.elapsed = 845;
  EXPECT_EQ(end_summary(report),
            "run        2450 steps, 20.0M tokens; 14m05s: training 12m50s, evaluation 1m02s, saves "
            "3s");
  report.loss = 3.12344;
  report.saved = "/runs/a/checkpoints/step_00002450";
  report.last = report.best = {2450, 3.25};
  EXPECT_EQ(end_summary(report).substr(end_summary(report).find('\n')),
            "\nloss       3.1234, held-out 3.2500\ncheckpoint /runs/a/checkpoints/step_00002450");
  report.best = {2300, 3.2};
  EXPECT_NE(end_summary(report).find("held-out 3.2500 (best 3.2000 at step 2300)"),
            std::string::npos);
  report.last->step = 2400;
  EXPECT_NE(end_summary(report).find("held-out 3.2500 at step 2400 (best"), std::string::npos);
}

TEST(Report, AnEvaluationHasALineForEachSet) {
  const auto of = [](double nats) {
    return EvalResult{.nats = nats, .tokens = 100, .bytes = 300, .documents = 2};
  };
  Evaluation evaluation{.all = of(300)};
  evaluation.lengths = {{"length_64", of(10)}};
  const std::string whole = "step 20  held-out loss 3.0000  perplexity 20.09  bits per byte 1.4427";
  EXPECT_EQ(evaluation_note(20, evaluation), whole);
  evaluation.sets = {{"python", of(200)}, {"all", of(400)}};
  EXPECT_EQ(evaluation_note(20, evaluation),
            whole + "\n  python  loss 2.0000  perplexity 7.39  bits per byte 0.9618" +
                "\n  all     loss 4.0000  perplexity 54.60  bits per byte 1.9236");
  evaluation.sets.assign(14, {"x", of(200)});
  const std::string note = evaluation_note(20, evaluation);
  EXPECT_EQ(std::count(note.begin(), note.end(), '\n'), 13);
  EXPECT_TRUE(note.ends_with("\n  and 2 more, in metrics.jsonl")) << note;
}

TEST(Report, NextCommandsAreWhatAShellTakes) {
  Config config;
  config.lr_schedule.type = LrScheduleType::kConstant;
  config.train.tokens = 5'000'000;
  EXPECT_EQ(next_commands("/runs/a", config, /*has_held_out=*/true, /*ended_early=*/false),
            "next       lmtrain eval /runs/a\n"
            "           lmtrain generate /runs/a --prompt \"Once upon a time\"\n"
            "           lmtrain resume /runs/a --set train.tokens=10000000");
  config.train.tokens.reset();
  config.train.epochs = 1.5;
  EXPECT_NE(next_commands("/my runs/it's", config, /*has_held_out=*/true, /*ended_early=*/false)
                .find("lmtrain resume '/my runs/it'\\''s' --set train.epochs=3"),
            std::string::npos);
  config.train.steps = 40;
  EXPECT_NE(next_commands("a", config, /*has_held_out=*/true, /*ended_early=*/false)
                .find("train.steps=80"),
            std::string::npos);
}

TEST(Report, TheBestCheckpointIsNamedWhereItIsNotTheLast) {
  EndReport report;
  report.steps = report.saved_step = 40;
  report.saved = "/runs/a/checkpoints/step_00000040";
  report.loss = 2.5;
  report.last = {40, 4.52};
  report.best = report.best_checkpoint = {12, 3.4312};
  report.best_path = "/runs/a/checkpoints/step_00000012";
  const std::string note = best_note(report);
  EXPECT_EQ(
      note,
      "step 12 is the best (held-out 3.4312): these take it, and with --last step 40 (4.5200)");
  EXPECT_TRUE(next_commands("/runs/a", Config(), /*has_held_out=*/true, /*ended_early=*/false, note)
                  .starts_with("next       " + note + "\n           lmtrain eval /runs/a\n"));
  EXPECT_NE(end_summary(report).find("\nbest       step 12, held-out 3.4312, /runs/a/"),
            std::string::npos);
  report.best_checkpoint = report.last;
  report.best_path = *report.saved;
  EXPECT_EQ(best_note(report), "");
  EXPECT_EQ(end_summary(report).find("\nbest  "), std::string::npos);
}

TEST(Report, WithoutHeldOutTextEvalIsNotAdvised) {
  const std::string advice =
      next_commands("a", Config(), /*has_held_out=*/false, /*ended_early=*/false);
  EXPECT_EQ(advice.find("eval"), std::string::npos) << advice;
  EXPECT_TRUE(advice.starts_with("next       lmtrain generate a ")) << advice;
}

// A longer run would begin the decay anew, at a rate far above that of its end.
TEST(Report, ADecayedRunIsNotAdvisedToResume) {
  for (const char* type : {"cosine", "linear", "sqrt", "wsd"}) {
    Config config;
    config.lr_schedule.type = value_named<LrScheduleType>(type).value();
    const std::string advice =
        next_commands("/my runs/a", config, /*has_held_out=*/true, /*ended_early=*/false);
    EXPECT_EQ(advice.find("resume"), std::string::npos) << type;
    EXPECT_NE(advice.find("lmtrain train CONFIG.json --run-dir NEW --set init_from='/my runs/a'"),
              std::string::npos)
        << type;
  }
}

}  // namespace
}  // namespace lmtrain
