#include "training/resolve.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "device/captured_graph.h"
#include "device/device_memory.h"
#include "device/torch_headers.h"
#include "training/memory_plan.h"

namespace lmtrain {
namespace {

// Positions of a micro-batch on a CPU: few enough for the activations of a layer to stay in the
// cache. Never a function of free memory.
constexpr int64_t kCpuMicroTokens = 8192;

// Positions of a micro-batch that keep a GPU busy. More positions save only launches and sums of
// gradients, which is less than keeping SwiGLU's value saves (docs/gpu.md).
constexpr int64_t kFullGpuMicroTokens = 16384;
// The most positions on a GPU whose memory is not known.
constexpr int64_t kUsualGpuMicroTokens = 32768;
// The most positions on any GPU.
constexpr int64_t kMostGpuMicroTokens = 65536;

// Returns the most positions up to `preferred` that are whole rows of max_length, at least one, and
// divide the batch.
int64_t fitted_micro_tokens(int64_t batch_tokens, int64_t max_length, int64_t preferred) {
  // Rows that the recipe has not chosen yet may be longer than a batch that is given.
  const int64_t longest_rows = std::max<int64_t>(1, batch_tokens / max_length);
  int64_t rows = std::clamp<int64_t>(preferred / max_length, 1, longest_rows);
  while (longest_rows % rows != 0) --rows;
  return rows * max_length;
}

}  // namespace

std::map<std::string, std::string> meanings_of_auto(const Config& config) {
  std::map<std::string, std::string> meanings;
  if (!config.threads) {
    meanings["threads"] =
        str("here ", default_threads(), ", by OMP_NUM_THREADS or the processors of this process");
  }
  try {
    const at::Device device = resolve_device(config.device);
    if (config.device == "auto") {
      meanings["device"] = device.is_cpu() ? "here cpu, as no GPU can be used"
                                           : str("here ", device.str(), ", the first GPU");
    }
    if (config.precision == PrecisionSetting::kAuto) {
      meanings["precision"] = str("here ", precision_name(resolve_precision("auto", device)),
                                  ", as ", why_auto_precision(device));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
  }
  return meanings;
}

void resolve_runtime(Config& config, const Processes& processes) {
  if (!config.threads) config.threads = default_threads(processes.processor_sharers());
  configure_runtime(static_cast<int>(*config.threads));
  if (config.deterministic) use_deterministic_algorithms();
  at::Device device = resolve_device(config.device);
  if (device.is_cuda() && !processes.is_only()) {
    // Slurm may show each process its own GPU alone, as number 0.
    const int num_gpus = +at::detail::getCUDAHooks().deviceCount();  // an int8_t
    device = resolve_device(str("cuda:", processes.local_rank() % num_gpus));
  }
  config.device = device.str();
  const Precision precision = resolve_precision(name_of(config.precision), device);
  config.precision = value_named<PrecisionSetting>(precision_name(precision)).value();
  if (config.precision == PrecisionSetting::kFp16 && device.is_cpu()) {
    log_warning(
        "precision \"fp16\" on a CPU is slow: the fused operators have no fp16 there; fp32 or bf16 "
        "is faster");
  }
  if (config.compile == CompileMode::kAuto) config.compile = CompileMode::kScript;
  if (config.compile == CompileMode::kGraph) {
    const bool comes_and_goes =
        !processes.is_only() && config.parallel.shard == ParallelShard::kParameters;
    const std::string reason =
        comes_and_goes ? "with parallel.shard \"parameters\" weights come and go during a step"
                       : why_no_graphs(device);
    if (!reason.empty()) {
      log_warning(str("compile \"graph\" is \"script\" here, which gives the same bits: ", reason));
      config.compile = CompileMode::kScript;
    }
  }
  if (device.is_cpu()) resolve_micro_tokens(config, processes.count(), processes);
}

void resolve_vocab_size(Config& config, const Tokenizer& tokenizer) {
  if (!config.model.vocab_size) config.model.vocab_size = tokenizer.vocab_size();
  if (*config.model.vocab_size < tokenizer.vocab_size()) {
    throw Error(ErrorKind::kConfig, str("model.vocab_size is ", *config.model.vocab_size,
                                        ", the tokenizer has ", tokenizer.vocab_size(),
                                        " pieces; set it to at least that, or to null, or give "
                                        "tokenizer.train.vocab_size"));
  }
}

int64_t gpu_micro_tokens(const Config& config, std::optional<uint64_t> available,
                         int num_processes) {
  const int64_t length = config.sequence.max_length;
  const auto at_most = [&](int64_t positions) {
    return fitted_micro_tokens(config.batch.tokens, length, positions);
  };
  if (!available) return at_most(kUsualGpuMicroTokens);
  const Precision precision = precision_of(config);
  const auto fits = [&](int64_t positions, bool with_value) {
    const MemoryPlan plan = plan_memory(config, precision, positions, num_processes);
    const int64_t value = with_value ? swiglu_value_bytes(config, precision, positions) : 0;
    const double again = config.compile == CompileMode::kGraph ? 1 : 0;
    const auto unknown = (kAllowance - 1 + again) * static_cast<double>(plan.of_positions());
    return static_cast<double>(plan.device_total() + value) + unknown <=
           kUsableOnGpu * static_cast<double>(*available);
  };
  const auto most = [&](bool with_value) {
    int64_t positions = at_most(kMostGpuMicroTokens);
    while (positions > length && !fits(positions, with_value))
      positions = at_most(positions - length);
    return positions;
  };
  const int64_t with_value = most(true);
  return with_value >= kFullGpuMicroTokens ? with_value : most(false);
}

std::optional<uint64_t> memory_share(const at::Device& device, const Processes& processes) {
  const std::optional<uint64_t> available = available_memory(device);
  if (!available) return std::nullopt;
  int sharers = processes.local_count();
  if (!device.is_cpu()) {
    // With more processes than GPUs, as resolve_runtime divides these.
    const int num_gpus = std::max(1, +at::detail::getCUDAHooks().deviceCount());
    sharers = (sharers + num_gpus - 1) / num_gpus;
  }
  return *available / static_cast<uint64_t>(sharers);
}

void resolve_micro_tokens(Config& config, int num_processes, const Processes& processes) {
  if (config.batch.micro_tokens) return;
  const at::Device device = device_of(config);
  if (device.is_cpu()) {
    config.batch.micro_tokens =
        fitted_micro_tokens(config.batch.tokens, config.sequence.max_length, kCpuMicroTokens);
    return;
  }
  config.batch.micro_tokens =
      gpu_micro_tokens(config, memory_share(device, processes), num_processes);
}

RunLength run_length(const TrainConfig& train, std::optional<size_t> replans) {
  RunLength length;
  length.steps = train.steps.value_or(0);
  length.tokens = train.steps || train.epochs ? 0 : train.tokens.value_or(0);
  length.epochs = train.epochs.value_or(0);
  if (replans && *replans < train.planned_tokens.size())
    length.tokens = train.planned_tokens[*replans];
  return length;
}

RunClock run_clock(const Config& config, const BatchOrder& order, const std::optional<Pace>& pace) {
  const TrainConfig& train = config.train;
  const int64_t total = train.steps    ? *train.steps
                        : train.epochs ? order.num_targets()
                                       : run_length(train, 0).tokens;
  RunClock clock{.total = static_cast<double>(total),
                 .counts_steps = train.steps.has_value(),
                 .tokens_per_step = static_cast<double>(config.batch.tokens),
                 .tokens_per_epoch = static_cast<double>(order.targets_given())};
  if (pace) {
    clock.change = {static_cast<double>(pace->tokens), pace->done, static_cast<double>(pace->end)};
  }
  return clock;
}

}  // namespace lmtrain
