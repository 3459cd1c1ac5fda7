// The settings of what a run leaves behind: evaluations, checkpoints, lines of progress, the model
// card.
#include "config/settings.h"

namespace lmtrain {

void add_output_settings(SettingTable& t, Config& c) {
  using Unit = TrainingDuration::Unit;
  constexpr double kMaxTokens = 0x1p53;
  const std::vector<Unit> all = {Unit::kSteps, Unit::kTokens, Unit::kPercent, Unit::kSeconds,
                                 Unit::kEpochs};
  t.section("eval", "Evaluation during training; one always comes at the start and the end.");
  t.add("eval.every", &c.eval.every, "How often; 0: never in between.").in_units(all, Unit::kSteps);
  t.add("eval.tokens", &c.eval.tokens,
        "How much of the held-out text, in whole documents; of named sets of data.eval, a part of "
        "each.")
      .as(SettingKind::kTokens)
      .range(1, kMaxTokens)
      .null_is(
          "at most 1000000, and so few that all evaluations together take about a tenth of the "
          "run, by a count of FLOPs; but at least 8192",
          "auto");
  t.add(
       "eval.tasks", &c.eval.tasks,
       "Questions with known answers that each evaluation asks too: a folder with a tasks.json, or "
       "one file of JSON lines.")
      .as(SettingKind::kPath)
      .null_is("none");
  t.add("eval.early_stop", &c.eval.early_stop,
        "End the run when the held-out loss does not fall any more.")
      .null_is("train to the end");
  t.section("checkpoint", "Saves; one always comes at the end.");
  t.add("checkpoint.every", &c.checkpoint.every, "How often; 0: never in between.")
      .in_units(all, Unit::kSteps);
  t.add("checkpoint.keep", &c.checkpoint.keep, "How many of the newest to keep.")
      .range(1, 1'000'000);
  t.add("checkpoint.keep_every", &c.checkpoint.keep_every,
        "How often to save a checkpoint that is never removed. With lr_schedule.type wsd the "
        "checkpoint at which the decay begins is never removed either.")
      .in_units(all, Unit::kSteps)
      .null_is("none");
  t.add("checkpoint.keep_best", &c.checkpoint.keep_best,
        "How many of those with the lowest held-out loss to keep, beside the others. An evaluation "
        "that gives a new lowest loss saves one. Without held-out text it has no effect.")
      .range(0, 1'000'000);
  t.add(
      "checkpoint.dtype", &c.checkpoint.dtype,
      "Format of the weights in model.safetensors. bf16: half the size there, and the fp32 weights "
      "that a resume needs lie in optimizer.safetensors.");
  t.add("checkpoint.async", &c.checkpoint.async, "Write while training goes on.");
  t.add("checkpoint.on_save_error", &c.checkpoint.on_save_error,
        "When a save fails, the disk full for example. continue: the run goes on, and keeps the "
        "lines "
        "of its logs in memory until they can be written.");
  t.section("log", "What a run says.");
  t.add("log.every", &c.log.every, "How often a line of progress; 0: never.")
      .in_units(all, Unit::kSteps);
  t.add("log.tensorboard", &c.log.tensorboard, "Write event files for TensorBoard.");
  t.add(
       "log.samples", &c.log.samples,
       "At each evaluation the model continues these prompts by the likeliest tokens; the texts go "
       "into events.jsonl.")
      .null_is("none");
  t.add(
       "log.prometheus", &c.log.prometheus,
       "A text file for Prometheus, such as one that the textfile collector of node_exporter reads "
       "(its name ends in .prom). It has the newest figures of the run, and is replaced at each "
       "step.")
      .as(SettingKind::kPath)
      .null_is("none");
  t.add("log.stall", &c.log.stall,
        "How long a run makes no progress before it says where it hangs, at least; 0: it never "
        "says so.")
      .as(SettingKind::kDuration)
      .range(0, 86400 * 365);
  t.section("card", "What the model card says that lmtrain cannot know.");
  t.add("card.license", &c.card.license,
        "Licence of the weights, by the hub's name for it, such as apache-2.0.")
      .null_is("the card names none");
  t.add("card.language", &c.card.language,
        "Languages of the text, by their codes, such as [\"en\", \"de\"].")
      .null_is("the card names none");
  t.add("card.datasets", &c.card.datasets,
        "Data sets that the text is from, by the hub's names for them.")
      .null_is("the card names none");
}

SettingTable early_stop_settings(EarlyStopConfig& early_stop) {
  SettingTable table;
  table
      .add("patience", &early_stop.patience,
           "The run ends after so many evaluations in a row that did not lower the lowest held-out "
           "loss so far by more than min_delta.")
      .range(1, 1'000'000);
  table
      .add("min_delta", &early_stop.min_delta,
           "Nats a target; an evaluation that lowers the loss by this or less counts as none that "
           "lowers it.")
      .at_least(0);
  return table;
}

SettingTable samples_settings(SamplesConfig& samples) {
  SettingTable table;
  table.add("prompts", &samples.prompts, "The texts that are continued.").must_be_given();
  table.add("max_tokens", &samples.max_tokens, "How many tokens to draw for each prompt, at most.")
      .range(1, 1'000'000);
  return table;
}

}  // namespace lmtrain
