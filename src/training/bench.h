// Measures how fast a config trains on this machine, and in how much memory, for `lmtrain bench`.
// It makes the step of a run with random weights and random tokens; no data is read and nothing is
// written.
//
// A step's time is the time of one micro-batch, multiplied by the number of whole micro-batches,
// plus the time of the update. Times are medians over `steps` steps, in seconds. With `compile:
// graph` run_bench() measures the phases of all lengths before it captures the first graph: a graph
// keeps the memory of its activations, and `script` needs as much.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "device/captured_graph.h"

namespace lmtrain {

struct LengthBench {
  int64_t length = 0;
  int64_t micro_rows = 0;     // rows of a micro-batch
  int64_t micro_batches = 0;  // whole micro-batches of a step, without a smaller last one
  double seconds = 0;         // of a step
  double seconds_min = 0, seconds_max = 0;
  // The seconds of a step by phase: "forward", "backward", "sum gradient", "clip", "update". They
  // are measured without graphs, since the phases of a graph cannot be told apart.
  std::map<std::string, double> phases;
  double tokens_per_second = 0;
  double flops_per_token = 0;   // 6N + 6 L D T, for causal attention (model/parameters.h)
  double flops_per_second = 0;  // tokens_per_second x flops_per_token
  std::optional<double> mfu;    // by 6N + 12 L D T and the device's data sheet, if known
  uint64_t peak_memory = 0;     // bytes: on a CPU of the process, on a GPU of its tensors
  int64_t planned_memory = 0;   // bytes of the MemoryPlan, on a CPU with the program's
};

struct BenchResult {
  int64_t num_parameters = 0;
  double matmul_rate = 0;                 // best_matmul_rate() between the lengths, FLOP/s
  std::optional<double> data_sheet_rate;  // FLOP/s of the device in this precision, if known
  std::vector<LengthBench> lengths;       // ascending
};

struct BenchOptions {
  int64_t steps = 5;   // measured steps of each length, at least 1
  int64_t warmup = 2;  // steps before them, not measured
  // Makes a recorder of graphs, for tests; null: the device's own recorder.
  std::function<std::unique_ptr<GraphRecorder>()> make_recorder = nullptr;
};

// Returns every length of rows that a run of this config could have, ascending.
std::vector<int64_t> lengths_of(const SequenceConfig& sequence);
// Returns the size of the vocabulary without preparing data: model.vocab_size if given, else the
// size of the given tokenizer, else of the tokenizer to train. Throws the errors of
// Tokenizer::load.
int64_t bench_vocab_size(const Config& config);

// Measures lengths_of() the config, and calls `report` after each. `config` is resolved,
// model.vocab_size included. Unless `trace` is null, writes a profile of one micro-batch and update
// of each length into it, as JSON (device/profile.h). Throws:
//   Error(kMemory)  one row does not fit
//   StopRequested   on a signal
BenchResult run_bench(const Config& config, const BenchOptions& options,
                      const std::function<void(const LengthBench&)>& report, std::string* trace);

// Returns the mean seconds of a step at each of `lengths`, in their order, in one of
// `num_processes`: the time of one micro-batch, multiplied by the number of micro-batches of a
// process (at least 1, fractions count), plus the time of an update. Measures for about `seconds`
// in all, at least one step of each length. `config` and errors are as for run_bench().
std::vector<double> measure_steps(const Config& config, const std::vector<int64_t>& lengths,
                                  double seconds, int num_processes);

}  // namespace lmtrain
