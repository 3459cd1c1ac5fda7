#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "base/publish.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/path_arguments.h"
#include "config/model_family.h"
#include "config/parse.h"
#include "config/recipe.h"
#include "device/device.h"
#include "device/profile.h"
#include "formats/strict_json.h"
#include "training/bench.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  std::string config;
  std::vector<std::string> overrides;
  int64_t steps = BenchOptions{}.steps;
  std::string profile;
  bool json = false;
};

// In the order of a step.
constexpr const char* kPhases[] = {"forward", "backward", "sum gradient", "clip", "update"};

std::string compute_text(const Config& config) {
  return device_description(device_of(config), static_cast<int>(*config.threads));
}

Json to_json(const Config& config, const BenchOptions& options, const BenchResult& result) {
  Json lengths = Json::array();
  for (const LengthBench& length : result.lengths) {
    Json phases = Json::object();
    for (const char* phase : kPhases) phases[phase] = length.phases.at(phase);
    lengths.push_back({{"length", length.length},
                       {"micro_rows", length.micro_rows},
                       {"micro_batches", length.micro_batches},
                       {"seconds", length.seconds},
                       {"seconds_min", length.seconds_min},
                       {"seconds_max", length.seconds_max},
                       {"phases", std::move(phases)},
                       {"tokens_per_second", length.tokens_per_second},
                       {"flops_per_token", length.flops_per_token},
                       {"flops_per_second", length.flops_per_second},
                       {"of_matmul_rate", length.flops_per_second / result.matmul_rate},
                       {"mfu", finite_or_null(length.mfu)},
                       {"peak_memory", length.peak_memory},
                       {"planned_memory", length.planned_memory}});
  }
  return {{"name", config.name},
          {"version", LMTRAIN_VERSION},
          {"compute", compute_text(config)},
          {"device", config.device},
          {"precision", name_of(config.precision)},
          {"compile", name_of(config.compile)},
          {"threads", *config.threads},
          {"parameters", result.num_parameters},
          {"hidden_size", config.model.hidden_size},
          {"num_hidden_layers", config.model.num_hidden_layers},
          {"vocab_size", *config.model.vocab_size},
          {"activation_checkpointing", config.model.activation_checkpointing},
          {"optimizer", name_of(config.optimizer.type)},
          {"batch_tokens", config.batch.tokens},
          {"steps", options.steps},
          {"matmul_flops_per_second", result.matmul_rate},
          {"data_sheet_flops_per_second", finite_or_null(result.data_sheet_rate)},
          {"lengths", std::move(lengths)}};
}

std::string milliseconds(double seconds) {
  return printed(seconds < 1 ? "%.1f" : "%.0f", 1e3 * seconds);
}

std::string to_text(const Config& config, const BenchResult& result) {
  // Three tables, since one would not fit 80 columns.
  Table steps = {{"length", "rows", "ms a step", "range", "tokens/s", "of matmul"}};
  Table phases = {{"length"}};
  Table memory = {{"length", "peak memory", "planned", "MFU"}};
  for (const char* phase : kPhases) phases[0].emplace_back(phase);
  for (const LengthBench& length : result.lengths) {
    steps.push_back({str(length.length), str(length.micro_batches, " x ", length.micro_rows),
                     milliseconds(length.seconds),
                     str(milliseconds(length.seconds_min), "-", milliseconds(length.seconds_max)),
                     format_count(length.tokens_per_second),
                     printed("%.0f %%", 100 * length.flops_per_second / result.matmul_rate)});
    phases.push_back({str(length.length)});
    for (const char* phase : kPhases)
      phases.back().push_back(milliseconds(length.phases.at(phase)));
    memory.push_back({str(length.length), format_bytes(length.peak_memory),
                      format_bytes(static_cast<uint64_t>(length.planned_memory)),
                      length.mfu ? printed("%.0f %%", 100 * *length.mfu) : "-"});
  }
  return line("model", model_text(config.model, result.num_parameters)) +
         line("compute", str(compute_text(config), ", ", name_of(config.precision), ", ",
                             name_of(config.compile), ", ", name_of(config.optimizer.type))) +
         line("matmul", str(printed("%.0f", result.matmul_rate * 1e-9), " GFLOP/s at best in ",
                            precision_name({precision_of(config).dtype}))) +
         block("step", steps) + block("ms in", phases) + block("memory", memory);
}

int bench(const BenchArguments& options) {
  Config config = load_new_config(options.config, options.overrides);
  if (config.train.time) {
    log_note(
        "train.time is not measured here: model and batch are those of 20M tokens; give "
        "train.tokens or model.size for others");
  }
  config.model.vocab_size = bench_vocab_size(config);
  choose_settings(config, {.vocab_size = *config.model.vocab_size});
  end_choice(config);
  resolve_runtime(config);
  resolve_micro_tokens(config, /*num_processes=*/1);
  // Nothing is saved, so no memory is needed for it.
  config.checkpoint.async = false;
  config.checkpoint.dtype = CheckpointDType::kFp32;
  const BenchOptions bench_options{options.steps};
  // A path where no file can be written is found before the measuring.
  std::optional<Unpublished> profile;
  if (!options.profile.empty()) {
    require_place_of({"--profile", "trace", kTraceBeginning, "trace.json"}, options.profile);
    profile.emplace(options.profile, FileKind::kFile, Unpublished::Existing::kIsReplaced);
    write_file_synced(profile->path(), "");
  }
  std::string trace;
  const BenchResult result = run_bench(
      config, bench_options,
      [](const LengthBench& length) {
        log_note(str("length ", length.length, ": ", printed("%.1f", 1e3 * length.seconds),
                     " ms a step, ", format_count(length.tokens_per_second), " tokens/s"));
      },
      profile ? &trace : nullptr);
  if (options.json) {
    std::cout << to_json(config, bench_options, result).dump() << std::endl;
  } else {
    std::cout << to_text(config, result) << std::flush;
  }
  // Last: what was measured is not lost with a full disk.
  if (profile) {
    write_file_synced(profile->path(), trace);
    profile->publish();
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Step time, throughput and peak memory of every length, on random tokens");
  add_config_options(*command, options->config, options->overrides);
  command->add_option("--steps", options->steps, "Steps to measure of each length")
      ->transform(integer_from(1))
      ->capture_default_str();
  command->add_option("--profile", options->profile,
                      "Write a Chrome trace of a step of each length to this file");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace lmtrain
