// Measures how fast a config trains on this machine, and in how much memory, for `lmtrain bench`.
// It makes the step of a run with random weights and random tokens; no data is read and nothing is
// written.
//
// One micro-batch of a step is timed, and its time is counted as often as there are whole
// micro-batches; the update is timed by itself. Times are medians, in seconds of a whole step. With
// `compile: graph` the phases of every length are measured before the first graph is captured:
// graphs keep the memory of their activations as long as they live, and `script` needs as much.
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
  int64_t micro_rows = 0;     // of a micro-batch
  int64_t micro_batches = 0;  // whole ones of a step; a smaller last one is not counted
  double seconds = 0;         // of a step
  double seconds_min = 0, seconds_max = 0;
  // Holds the seconds of a step by phase: "forward", "backward", "sum gradient", "clip", "update".
  // With `compile: graph` they are measured without graphs, whose phases cannot be told apart.
  std::map<std::string, double> phases;
  double tokens_per_second = 0;
  double flops_per_token = 0;   // 6N + 6 L D T, for causal attention (model/parameters.h)
  double flops_per_second = 0;  // by that count
  std::optional<double> mfu;    // by 6N + 12 L D T and the data sheet of the device, where known
  uint64_t peak_memory = 0;     // bytes: of the process on a CPU, of tensors on a GPU
  int64_t planned_memory = 0;   // bytes, as memory_plan.h estimates them; on a CPU with the program
};

struct BenchResult {
  int64_t num_parameters = 0;
  double matmul_rate = 0;  // FLOP/s of the best matrix product, measured between the lengths
  std::optional<double> data_sheet_rate;  // FLOP/s of the device in this precision, where known
  std::vector<LengthBench> lengths;       // ascending
};

struct BenchOptions {
  int64_t steps = 5;   // measured of each length, at least 1
  int64_t warmup = 2;  // steps before them that are not measured
  // Makes a recorder of graphs, for tests; null: the device's own recorder.
  std::function<std::unique_ptr<GraphRecorder>()> make_recorder = nullptr;
};

// Returns every length of rows that a run of this config could have, ascending.
std::vector<int64_t> lengths_of(const SequenceConfig& sequence);
// Returns the size of the vocabulary without preparing data: as the config says, else the size of
// the given tokenizer, else of the tokenizer to be trained. Throws the errors of Tokenizer::load.
int64_t bench_vocab_size(const Config& config);

// Measures all lengths and calls `report` when one is done. `config` is resolved, model.vocab_size
// included. Unless `trace` is null, a profile of one micro-batch and update of each length, JSON as
// device/profile.h has it, is put there. Throws Error(kMemory) when one row does not fit. Throws
// StopRequested (base/stop.h) on a signal.
BenchResult run_bench(const Config& config, const BenchOptions& options,
                      const std::function<void(const LengthBench&)>& report, std::string* trace);

// Returns the seconds of a whole step at each of `lengths`, which lengths_of() has, in their order:
// of one micro-batch, counted as often as a process of `num_processes` has whole ones, and an
// update, means of some. It measures for about `seconds`, and one step of each length at least.
// Otherwise as run_bench().
std::vector<double> measure_steps(const Config& config, const std::vector<int64_t>& lengths,
                                  double seconds, int num_processes);

}  // namespace lmtrain
