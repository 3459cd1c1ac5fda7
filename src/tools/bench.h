// How fast a config trains on this machine, and in how much memory: what `lmtrain bench` measures.
// Random weights, random tokens, the step of a run; no data is read and nothing is written.
//
// A step of several micro-batches is timed as one of them, and its time counted as often as there
// are micro-batches; the update is timed by itself. Times are medians, in seconds of a whole step.
// With `compile: graph` the phases of every length are measured before the first graph is captured:
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
  int64_t micro_batches = 0;  // of a step
  double seconds = 0;         // of a step
  double seconds_min = 0, seconds_max = 0;
  // Seconds of a step by phase: forward, backward, sum gradient, clip, update. As `script` does
  // them, where a graph would do them at once.
  std::map<std::string, double> phases;
  double tokens_per_second = 0;
  double flops_per_token = 0;   // 6N + 6 L D T: attention that is causal
  double flops_per_second = 0;  // by that count
  std::optional<double> mfu;    // by 6N + 12 L D T and the data sheet of the device, where known
  uint64_t peak_memory = 0;     // bytes: of the process on a CPU, of tensors on a GPU
  int64_t planned_memory = 0;   // bytes, as memory_plan.h estimates what is on the device
};

struct BenchResult {
  int64_t num_parameters = 0;
  double matmul_rate = 0;  // FLOP/s of the best matrix product, measured between the lengths
  std::optional<double> data_sheet_rate;  // FLOP/s of the device in this precision, where known
  std::vector<LengthBench> lengths;       // ascending
};

struct BenchOptions {
  int64_t steps = 5;   // measured, of each length
  int64_t warmup = 2;  // before them
  // A recorder of graphs that tests give; null: that of the device.
  std::function<std::unique_ptr<GraphRecorder>()> make_recorder = nullptr;
};

// Every length of rows that a run of this config could have, ascending.
std::vector<int64_t> lengths_of(const SequenceConfig& sequence);
// The vocabulary without preparing data: as the config says, else of the tokenizer given, else as
// large as the one to be trained. Error as Tokenizer::load.
int64_t bench_vocab_size(const Config& config);

// `config` is resolved. `report` is called when a length is done. `trace`: a profile of one step of
// each length (device/trace.h) is put there unless it is null. Throws StopRequested on a signal.
BenchResult run_bench(const Config& config, const BenchOptions& options,
                      const std::function<void(const LengthBench&)>& report, std::string* trace);

}  // namespace lmtrain
