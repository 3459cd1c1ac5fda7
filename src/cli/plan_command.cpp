#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/examine.h"
#include "base/log.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/path_arguments.h"
#include "config/model_family.h"
#include "config/parse.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "eval/eval_share.h"
#include "eval/evaluate.h"
#include "prepare/given_tokenizer.h"
#include "training/choices.h"
#include "training/expected_loss.h"
#include "training/length_picture.h"
#include "training/load_run.h"
#include "training/micro_batch_limits.h"
#include "training/plan.h"
#include "training/preflight.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string run_dir;
  int processes = 1;
  bool json = false;
};

// Everything that is shown, as text or as JSON.
struct Shown {
  const Config& config;
  const PreparedData& data;
  const BatchOrder& order;
  const RunPlan& plan;
  const CheckpointRoom& room;
  const std::vector<std::string>& obstacles;  // why train would refuse the run
  int64_t eval_targets;                       // of an evaluation
  const std::vector<std::string>& warnings;
  std::optional<ExpectedPoint> expected;  // at the end, where the config has a forecast

  double eval_share() const { return evaluation_share(config, data, eval_targets); }
  int64_t targets_trained() const {  // an epoch
    int64_t sum = 0;
    for (const LengthSummary& length : order.lengths()) sum += length.targets_per_epoch;
    return sum;
  }
  int64_t padding() const {  // an epoch
    int64_t sum = 0;
    for (const LengthSummary& length : order.lengths()) sum += length.padding_per_epoch();
    return sum;
  }
  int64_t truncated() const { return order.targets_given() - targets_trained(); }
  const std::string& path_of(const SourceSummary& source) const {
    return config.data.train[static_cast<size_t>(source.source)].path;
  }
};

Json memory_json(const MemoryPlan& memory) {
  return {{"weights", memory.weights},           {"working_weights", memory.working_weights},
          {"gradient", memory.gradient},         {"optimizer", memory.optimizer},
          {"activations", memory.activations},   {"logits", memory.logits},
          {"swiglu_value", memory.swiglu_value}, {"micro_gradient", memory.micro_gradient},
          {"temporaries", memory.temporaries},   {"update", memory.update},
          {"program", memory.program},           {"total", memory.device_total() + memory.program},
          {"snapshot", memory.snapshot},         {"reading", memory.reading}};
}

Json expected_json(const std::optional<ExpectedPoint>& expected) {
  if (!expected) return nullptr;
  return {{"eval_loss", expected->loss}, {"low", expected->low}, {"high", expected->high}};
}

Json to_json(const Shown& shown) {
  const Config& config = shown.config;
  const RunPlan& plan = shown.plan;
  Json lengths = Json::array();
  for (const LengthSummary& length : shown.order.lengths()) {
    lengths.push_back({{"length", length.length},
                       {"rows_per_epoch", length.rows_per_epoch},
                       {"sequences_per_epoch", length.sequences_per_epoch},
                       {"targets_per_epoch", length.targets_per_epoch},
                       {"padding_per_epoch", length.padding_per_epoch()},
                       {"batches", length.batches}});
  }
  Json cycles = Json::array();
  for (const CycleSummary& cycle : shown.order.cycles())
    cycles.push_back({{"first_batch", cycle.first_batch}, {"batches", cycle.batches}});
  Json sources = Json::array();
  for (const SourceSummary& source : shown.order.sources()) {
    sources.push_back({{"path", shown.path_of(source)},
                       {"weight", source.weight},
                       {"documents", source.documents},
                       {"targets", source.targets},
                       {"epochs", source.epochs}});
  }
  Json rates = Json::array();
  for (const LearningRatePoint& point : plan.learning_rate)
    rates.push_back({{"at", point.at}, {"step", point.step}, {"lr", point.rate}});
  const auto count = [](const std::optional<int64_t>& number) {
    return number ? Json(*number) : Json();
  };
  return {{"name", config.name},
          {"device", config.device},
          {"precision", name_of(config.precision)},
          {"compile", name_of(config.compile)},
          {"threads", *config.threads},
          {"parameters", plan.num_parameters},
          {"flops_per_token", plan.flops_per_token},
          {"vocab_size", *config.model.vocab_size},
          {"documents", shown.data.train_documents},
          {"targets_given", shown.order.targets_given()},
          {"targets_per_epoch", shown.targets_trained()},
          {"truncated_per_epoch", shown.truncated()},
          {"padding_per_epoch", shown.padding()},
          {"lengths", std::move(lengths)},
          {"cycles", std::move(cycles)},
          {"sources", std::move(sources)},
          {"batch_tokens", config.batch.tokens},
          {"micro_tokens", *config.batch.micro_tokens},
          {"steps", plan.steps},
          {"tokens", plan.targets},
          {"learning_rate", std::move(rates)},
          {"evaluations", count(plan.evaluations)},
          {"eval_tokens", shown.eval_targets},
          {"eval_share", shown.eval_share()},
          {"forecast", expected_json(shown.expected)},
          {"checkpoints", count(plan.checkpoints)},
          {"best_checkpoints", count(plan.best_checkpoints)},
          {"memory", memory_json(plan.memory)},
          {"checkpoint_bytes", shown.room.each},
          {"checkpoints_at_once", count(shown.room.at_once)},
          {"obstacles", shown.obstacles},
          {"warnings", shown.warnings}};
}

std::string percent(int64_t part, int64_t whole) {
  return printed("%.1f %%", 100.0 * static_cast<double>(part) /
                                static_cast<double>(std::max<int64_t>(1, whole)));
}

Table lengths_table(const Shown& shown) {
  Table table = {{"length", "rows", "sequences", "targets", "share", "padding", "batches"}};
  for (const LengthSummary& length : shown.order.lengths()) {
    table.push_back(
        {str(length.length), str(length.rows_per_epoch), str(length.sequences_per_epoch),
         str(length.targets_per_epoch), percent(length.targets_per_epoch, shown.targets_trained()),
         percent(length.padding_per_epoch(), length.positions_per_epoch()), str(length.batches)});
  }
  return table;
}

Table cycles_table(const Shown& shown) {
  Table table = {{"from batch"}};
  for (const LengthSummary& length : shown.order.lengths())
    table[0].push_back(str("of ", length.length));
  for (const CycleSummary& cycle : shown.order.cycles()) {
    table.push_back({str(cycle.first_batch)});
    for (const int64_t batches : cycle.batches) table.back().push_back(str(batches));
  }
  return table;
}

Table sources_table(const Shown& shown) {
  Table table = {{"documents", "targets", "weight", "epochs", "path"}};
  for (const SourceSummary& source : shown.order.sources()) {
    table.push_back({str(source.documents), str(source.targets), str(source.weight),
                     printed("%.2f", source.epochs), shown.path_of(source)});
  }
  return table;
}

Table rates_table(const RunPlan& plan) {
  Table table;
  for (const LearningRatePoint& point : plan.learning_rate)
    table.push_back({point.at, str("step ", point.step), printed("%.3e", point.rate)});
  return table;
}

// Counts SwiGLU's value where a run would keep it on this GPU, on which nothing is allocated yet.
void count_kept_value(const Config& config, const BatchOrder& order, int num_processes,
                      MemoryPlan& memory) {
  const at::Device device = device_of(config);
  if (device.is_cpu()) return;
  const std::optional<uint64_t> available = available_memory(device);
  const auto first =
      static_cast<uint64_t>(memory.device_total() - memory.of_positions() - memory.micro_gradient);
  if (!available || *available < first) return;
  memory.swiglu_value = fitting_swiglu_value(config, {order.batch_lengths().back()},
                                             *available - first, {}, num_processes);
}

Table memory_table(const Shown& shown) {
  const MemoryPlan& memory = shown.plan.memory;
  Table table;
  const auto add = [&](const std::string& what, int64_t bytes) {
    if (bytes > 0) table.push_back({format_bytes(static_cast<uint64_t>(bytes)), what});
  };
  add("weights, fp32", memory.weights);
  add(str("weights, ", precision_name({precision_of(shown.config).dtype})), memory.working_weights);
  add("gradient", memory.gradient);
  add(str("state of ", name_of(shown.config.optimizer.type)), memory.optimizer);
  add(str("activations of ", shown.plan.micro_positions, " positions"), memory.activations);
  add("logits of the same", memory.logits);
  add("SwiGLU's value of the same, kept for the backward", memory.swiglu_value);
  add("gradient of the same", memory.micro_gradient);
  add("operators at work", memory.temporaries);
  add("the update at work", memory.update);
  add("the program", memory.program);
  add("together, about", memory.device_total() + memory.program);
  add("more in host memory while a checkpoint is written", memory.snapshot);
  add("more in host memory of rank 0 while a checkpoint is read", memory.reading);
  return table;
}

std::string to_text(const Shown& shown) {
  const Config& config = shown.config;
  const RunPlan& plan = shown.plan;
  const auto count = [](const std::optional<int64_t>& number, const std::string& noun) {
    return number ? counted(*number, noun) : noun + "s by the clock";
  };
  const std::string best_checkpoints =
      config.checkpoint.keep_best == 0 || plan.best_checkpoints == 0 ? ""
      : plan.best_checkpoints
          ? str(" and at most ", *plan.best_checkpoints, " more of the lowest losses")
          : " and those of the lowest losses";
  std::string text =
      line("model", model_text(config.model, plan.num_parameters)) +
      line("compute", str(device_description(device_of(config), static_cast<int>(*config.threads)),
                          ", ", name_of(config.precision), ", ", name_of(config.compile),
                          ", micro-batches of ", *config.batch.micro_tokens, " positions")) +
      line("data",
           str(counted(shown.data.train_documents, "document"), ", ", shown.order.targets_given(),
               " targets an epoch, of them ", shown.truncated(), " truncated, and ",
               shown.padding(), " positions of padding")) +
      block("lengths", lengths_table(shown));
  if (shown.order.sources().size() > 1) text += block("sources", sources_table(shown));
  text += line("run", str(plan.steps, " steps of ", config.batch.tokens, " positions, ",
                          plan.targets, " targets, ",
                          printed("%.2f", static_cast<double>(plan.targets) /
                                              static_cast<double>(shown.targets_trained())),
                          " epochs, ", count(plan.evaluations, "evaluation"), ", ",
                          count(plan.checkpoints, "checkpoint"), best_checkpoints));
  if (shown.eval_targets > 0) {
    text += line("evaluation", str("of ", shown.eval_targets, " held-out tokens, together about ",
                                   printed("%.0f %%", 100 * shown.eval_share()), " of the run"));
  }
  if (shown.expected) {
    text += line("forecast", str("held-out loss ", printed("%.3f", shown.expected->loss),
                                 " at the end, with 80 % probability from ",
                                 printed("%.3f", shown.expected->low), " to ",
                                 printed("%.3f", shown.expected->high)));
  }
  if (shown.order.cycles().size() > 1) text += block("cycles", cycles_table(shown));
  text += block("rate", rates_table(plan)) + block("memory", memory_table(shown)) +
          line("checkpoints",
               describe_room(shown.room) + (shown.room.is_short() ? "; not all of them fit" : ""));
  for (const std::string& obstacle : shown.obstacles) text += line("refused", obstacle);
  const std::vector<int64_t> lengths = shown.order.batch_lengths();
  const auto margin = static_cast<int64_t>(str(lengths.back()).size()) + 3;
  const int64_t width = std::clamp<int64_t>(terminal_size(STDOUT_FILENO).columns, 40, 160);
  return text + "\nlength of rows over the run\n" +
         length_picture(length_shares(shown.order, width - margin), lengths, output_is_terminal());
}

int show_plan(const PlanArguments& options) {
  Config config = load_new_config(options.config, options.overrides);
  make_paths_absolute(config);
  std::vector<std::string> warnings = check_given_model(config);
  resolve_runtime(config);
  resolve_document_ends(config);
  const PreparedData data = prepare_data(config, static_cast<int>(*config.threads));
  resolve_after_data(config, data, options.processes);
  const TokenShard shard(data.train_shard, /*verify_tokens=*/false);
  const BatchOrder order(order_spec(config, data, shard));
  RunPlan plan = plan_run(config, data, order, options.processes);
  if (device_of(config).is_cpu()) plan.memory.program = program_bytes();
  count_kept_value(config, order, options.processes, plan.memory);
  std::optional<int64_t> eval_targets;
  if (data.eval_shard) {
    eval_targets = evaluation_targets(TokenShard(*data.eval_shard, /*verify_tokens=*/false),
                                      *config.eval.tokens, eval_sets_of(config.data, data));
  }
  for (std::string& warning : preflight_warnings(config, order, eval_targets))
    warnings.push_back(std::move(warning));
  for (std::string& warning :
       resume_memory_warnings(config, available_memory(at::kCPU), options.processes))
    warnings.push_back(std::move(warning));
  for (const std::string& warning : warnings) log_warning(warning);
  take_run_dir(config, options.run_dir);
  const RunFolder run(absolute_path(config.resolved_run_dir()));
  const CheckpointRoom room = checkpoint_room(config, plan, run);
  const std::vector<std::string> obstacles =
      preflight_errors({config, options.processes, &data, &run});
  std::optional<ExpectedPoint> expected;
  if (config.forecast && is_file(forecast_file(*config.forecast))) {
    try {
      expected = expect_curve(config, data, static_cast<double>(plan.targets)).points.back();
    } catch (const Error&) {
      // One of the obstacles.
    }
  }
  const Shown shown = {config,   data,    order, plan, room, obstacles, eval_targets.value_or(0),
                       warnings, expected};
  if (options.json) {
    std::cout << to_json(shown).dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  } else {
    std::cout << to_text(shown) << std::flush;
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan", "What a run would do: lengths, steps, rates, memory; trains nothing");
  add_config_options(*command, options->config, options->overrides);
  command
      ->add_option("--run-dir", options->run_dir,
                   "The folder that the run would have (default: runs/NAME)")
      ->check(not_empty());
  command
      ->add_option("--processes", options->processes,
                   "Show the memory of one process of a run of this many (default: 1)")
      ->transform(integer_from(1))
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &action] { action = [options] { return show_plan(*options); }; });
}

}  // namespace lmtrain
