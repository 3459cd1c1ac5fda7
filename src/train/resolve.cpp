#include "train/resolve.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/processors.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "device/captured_graph.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// Positions of a micro-batch: on a CPU few enough for the activations of a layer to stay in the
// cache, on a GPU enough to fill it. A function of the device's kind alone, never of free memory.
constexpr int64_t kCpuMicroTokens = 8192;
constexpr int64_t kGpuMicroTokens = 32768;

// The largest number of positions within `preferred` that rows of every length fill, and that
// divides the batch.
int64_t fitted_micro_tokens(int64_t batch_tokens, int64_t max_length, int64_t preferred) {
  const int64_t longest_rows = batch_tokens / max_length;
  int64_t rows = std::clamp<int64_t>(preferred / max_length, 1, longest_rows);
  while (longest_rows % rows != 0) --rows;
  return rows * max_length;
}

}  // namespace

int default_threads(int sharers) {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int count = std::atoi(text);
    if (count > 0) return count;
  }
  return std::max(1, available_processors() / sharers);
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
    const std::string reason = why_no_graphs(device);
    if (!reason.empty()) {
      log_warning(str("compile \"graph\" is \"script\" here, to the same bits: ", reason));
      config.compile = CompileMode::kScript;
    }
  }
  if (!config.batch.micro_tokens) {
    config.batch.micro_tokens =
        fitted_micro_tokens(config.batch.tokens, config.sequence.max_length,
                            device.is_cpu() ? kCpuMicroTokens : kGpuMicroTokens);
  }
}

void resolve_vocab_size(Config& config, const Tokenizer& tokenizer) {
  if (!config.model.vocab_size) config.model.vocab_size = tokenizer.vocab_size();
  if (*config.model.vocab_size < tokenizer.vocab_size()) {
    throw Error(ErrorKind::kConfig,
                str("model.vocab_size is ", *config.model.vocab_size, ", the tokenizer has ",
                    tokenizer.vocab_size(), " pieces; set it to at least that, or to null"));
  }
}

at::Device device_of(const Config& config) { return resolve_device(config.device); }

Precision precision_of(const Config& config) {
  return resolve_precision(name_of(config.precision), device_of(config));
}

RunLength run_length(const TrainConfig& train) {
  RunLength length;
  length.steps = train.steps.value_or(0);
  length.tokens = train.steps || train.epochs ? 0 : train.tokens.value_or(0);
  length.epochs = train.epochs.value_or(0);
  return length;
}

RunClock run_clock(const Config& config, const BatchOrder& order) {
  const TrainConfig& train = config.train;
  const int64_t total = train.steps    ? *train.steps
                        : train.epochs ? order.num_targets()
                                       : *train.tokens;
  return {.total = static_cast<double>(total),
          .counts_steps = train.steps.has_value(),
          .tokens_per_step = static_cast<double>(config.batch.tokens),
          .tokens_per_epoch = static_cast<double>(order.targets_given())};
}

}  // namespace lmtrain
