#include "training/bench.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/log.h"
#include "base/random.h"
#include "base/stop.h"
#include "base/text.h"
#include "batching/batch_plan.h"
#include "config/recipe.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "device/profile.h"
#include "device/torch_headers.h"
#include "ops/operators.h"
#include "optim/loss_scale.h"
#include "tokenizer/tokenizer.h"
#include "training/engine.h"
#include "training/matmul_rate.h"
#include "training/memory_plan.h"
#include "training/micro_batch_limits.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Batch random_batch(const Config& config, int64_t length, int64_t rows) {
  Batch batch = costliest_batch(config.sequence, length, rows);
  batch.num_targets = rows * length;
  const auto vocab_size = static_cast<uint64_t>(*config.model.vocab_size);
  const auto id = [&](uint64_t index) {
    const uint64_t bits =
        random_bits(static_cast<uint64_t>(config.seed), RandomStream::kBench, index);
    return static_cast<int32_t>(bits % vocab_size);
  };
  for (uint64_t i = 0; i < static_cast<uint64_t>(batch.num_targets); ++i) {
    batch.inputs[i] = id(2 * i);
    batch.targets[i] = id(2 * i + 1);
  }
  return batch;
}

// Makes steps and times their two halves apart: micro-batch, and clipping with update.
class BenchRun {
 public:
  BenchRun(const Config& config, const BenchOptions& options)
      : config_(config),
        engine_(config, precision_of(config), device_of(config),
                {.make_optimizer = {},
                 .recorder = options.make_recorder ? options.make_recorder() : nullptr}) {
    engine_.initialize(config.seed);
  }

  Engine& engine() { return engine_; }
  at::Device device() const { return engine_.device(); }

  struct Seconds {
    double micro_batch, update;
  };
  // Phases inside a graph cannot be told apart, so `use_graphs` false makes the step without
  // graphs.
  Seconds step(const Batch& batch, bool use_graphs = true) {
    throw_if_stopped();
    const auto begin = Clock::now();
    const double loss_scale = config_.precision == PrecisionSetting::kFp16 ? LossScale{}.scale : 1;
    engine_.forward_backward(batch, batch.rows, loss_scale, use_graphs);
    synchronize(device());
    const auto middle = Clock::now();
    double factor = 1;
    {
      RECORD_USER_SCOPE("clip");
      factor = engine_.clip(engine_.grad_norm());
    }
    {
      // At a learning rate of 0: all the arithmetic, and weights that stay as they are.
      RECORD_USER_SCOPE("update");
      engine_.update({++num_updates_, 0.0, factor, {.total = 1}}, use_graphs);
    }
    synchronize(device());
    return {seconds_between(begin, middle), seconds_between(middle, Clock::now())};
  }

 private:
  const Config& config_;
  Engine engine_;
  int64_t num_updates_ = 0;
};

using Phases = std::map<std::string, double>;

// Returns the seconds of a whole step by phase, without graphs. It makes its own steps: on a GPU
// the borders of phases cost time.
Phases measure_phases(BenchRun& run, const BenchOptions& options, const Batch& batch,
                      int64_t micro_batches) {
  const int64_t steps = (options.steps + 1) / 2;
  const PhaseTimes times(run.device());
  for (int64_t i = 0; i < steps; ++i) run.step(batch, /*use_graphs=*/false);
  Phases phases;
  for (const auto& [name, sum] : times.seconds()) {
    const bool once = name == "clip" || name == "update";
    phases[name] =
        sum / static_cast<double>(steps) * (once ? 1 : static_cast<double>(micro_batches));
  }
  return phases;
}

// Measures one length. If `phases` is null, measures the phases too.
LengthBench measure(BenchRun& run, const Config& config, const BenchOptions& options,
                    const Batch& batch, int64_t micro_batches, const Phases* phases,
                    int64_t program) {
  LengthBench result;
  result.length = batch.length;
  result.micro_rows = batch.rows;
  result.micro_batches = micro_batches;
  MemoryPlan planned = plan_memory(config, precision_of(config), batch.num_targets);
  if (keeps_swiglu_value())
    planned.swiglu_value = swiglu_value_bytes(config, precision_of(config), batch.num_targets);
  planned.program = program;
  result.planned_memory = planned.device_total() + planned.program;
  reset_peak_memory(run.device());
  const int64_t warmup =
      options.warmup + (run.engine().has_graphs() ? StepGraphs::kWarmUps + 1 : 0);
  for (int64_t i = 0; i < warmup; ++i) run.step(batch);
  const auto count = static_cast<double>(micro_batches);
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.steps; ++i) {
    const BenchRun::Seconds step = run.step(batch);
    seconds.push_back(count * step.micro_batch + step.update);
  }
  result.phases = phases ? *phases : measure_phases(run, options, batch, micro_batches);
  result.peak_memory = peak_memory(run.device());
  result.seconds = median(seconds);
  result.seconds_min = *std::min_element(seconds.begin(), seconds.end());
  result.seconds_max = *std::max_element(seconds.begin(), seconds.end());
  const double tokens = count * static_cast<double>(batch.num_targets);
  result.tokens_per_second = tokens / result.seconds;
  result.flops_per_token = run.engine().layout().causal_flops_per_token(batch.length);
  result.flops_per_second = result.tokens_per_second * result.flops_per_token;
  if (const auto peak = known_peak_flops(run.device(), precision_of(config).dtype)) {
    result.mfu =
        result.tokens_per_second * run.engine().layout().flops_per_token(batch.length) / *peak;
  }
  return result;
}

// Returns the rows that a run would take, so that no length kills the process.
MicroBatchLimits fitted(const Config& config, BenchRun& run, const std::vector<int64_t>& lengths) {
  const auto note = [](const MicroBatchReduction& lowered) {
    log_warning(str("length ", lowered.length, ": ", counted(lowered.rows, "row"),
                    " at once instead of ", lowered.rows_before, " (", lowered.reason, ")"));
  };
  MicroBatchLimits fit;
  fit_memory(config, run.engine().model(), lengths, run.engine().gradient(), fit, note);
  return fit;
}

}  // namespace

std::vector<int64_t> lengths_of(const SequenceConfig& sequence) {
  const LengthScheduleType schedule = sequence.schedule.type;
  const bool capped = schedule == LengthScheduleType::kLinear ||
                      schedule == LengthScheduleType::kRoot ||
                      schedule == LengthScheduleType::kStep;
  if (!capped && !sequence.has_buckets()) return {sequence.max_length};
  return possible_caps(sequence.min_length, sequence.max_length);
}

int64_t bench_vocab_size(const Config& config) {
  if (config.model.vocab_size) return *config.model.vocab_size;
  if (config.tokenizer.model) return Tokenizer::load(*config.tokenizer.model).vocab_size();
  return config.tokenizer.train.vocab_size.value_or(kMostChosenPieces);
}

BenchResult run_bench(const Config& config, const BenchOptions& options,
                      const std::function<void(const LengthBench&)>& report, std::string* trace) {
  const bool on_cpu = device_of(config).is_cpu();
  const auto program = on_cpu ? program_bytes() : 0;
  require_memory(config, /*num_processes=*/1);
  BenchRun run(config, options);
  const std::vector<int64_t> lengths = lengths_of(config.sequence);
  const MicroBatchLimits fit = fitted(config, run, lengths);
  BenchResult result;
  result.num_parameters = run.engine().layout().num_parameters();
  result.data_sheet_rate = known_peak_flops(run.device(), precision_of(config).dtype);
  const auto note_matmul_rate = [&] {
    const double rate = best_matmul_rate(run.device(), precision_of(config).dtype);
    result.matmul_rate = std::max(result.matmul_rate, rate);
  };
  std::vector<Batch> batches;
  batches.reserve(lengths.size());
  for (const int64_t length : lengths)
    batches.push_back(random_batch(config, length, micro_rows(config, fit, length)));
  const auto micro_batches_of = [&](const Batch& batch) {
    return config.batch.tokens / batch.length / batch.rows;
  };
  std::vector<Phases> phases;
  for (const Batch& batch : batches) {
    if (!run.engine().has_graphs()) break;
    for (int64_t i = 0; i < options.warmup; ++i) run.step(batch, /*use_graphs=*/false);
    phases.push_back(measure_phases(run, options, batch, micro_batches_of(batch)));
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    note_matmul_rate();
    result.lengths.push_back(measure(run, config, options, batches[i], micro_batches_of(batches[i]),
                                     phases.empty() ? nullptr : &phases[i], program));
    report(result.lengths.back());
  }
  note_matmul_rate();
  if (trace != nullptr) {
    *trace = record_trace(run.device(), [&] {
      for (const Batch& batch : batches) {
        RECORD_USER_SCOPE(str("length ", batch.length));
        run.step(batch);
      }
    });
  }
  return result;
}

std::vector<double> measure_steps(const Config& config, const std::vector<int64_t>& lengths,
                                  double seconds, int num_processes) {
  constexpr size_t kMost = 9;  // of one length
  require_memory(config, num_processes);
  BenchRun run(config, {});
  const MicroBatchLimits fit = fitted(config, run, lengths);
  std::vector<double> means;
  for (const int64_t length : lengths) {
    const Batch batch = random_batch(config, length, micro_rows(config, fit, length));
    const double micro_batches =
        std::max(1.0, static_cast<double>(config.batch.tokens) /
                          static_cast<double>(batch.num_targets * num_processes));
    const auto begin = Clock::now();
    const double share = seconds / static_cast<double>(lengths.size());
    const auto is_time_left = [&] { return seconds_between(begin, Clock::now()) < share; };
    std::vector<double> steps;
    const auto step = [&] {
      const BenchRun::Seconds taken = run.step(batch);
      steps.push_back(micro_batches * taken.micro_batch + taken.update);
    };
    const int warmup = run.engine().has_graphs() ? StepGraphs::kWarmUps + 2 : 1;
    for (int i = 0; i < warmup; ++i) step();
    // If the warm-up has taken all the time, its steps must do.
    if (is_time_left()) steps.clear();
    while (is_time_left() && steps.size() < kMost) step();
    if (steps.empty()) step();
    means.push_back(std::accumulate(steps.begin(), steps.end(), 0.0) /
                    static_cast<double>(steps.size()));
  }
  return means;
}

}  // namespace lmtrain
