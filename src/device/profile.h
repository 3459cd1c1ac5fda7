// Measures the parts of a step in two ways: the seconds of its named phases, and a trace of every
// operator. A phase is a scope that the code marks with RECORD_USER_SCOPE("forward"), which costs
// nothing while nobody listens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace lmtrain {

// A PhaseTimes, while it lives, measures phases of the thread that made it and of autograd's
// threads that work for it. The same thread must destroy it. A second one at a time throws
// c10::Error. On a GPU every phase begins and ends with a synchronisation: it includes the work
// that it queues.
class PhaseTimes {
 public:
  explicit PhaseTimes(const at::Device& device);
  ~PhaseTimes();
  PhaseTimes(const PhaseTimes&) = delete;
  PhaseTimes& operator=(const PhaseTimes&) = delete;

  // Returns seconds by phase, summed over its occurrences; a phase inside another counts in both.
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  friend struct PhaseClock;

  at::Device device_;
  std::map<std::string, double> seconds_;
  uint64_t handle_ = 0;
};

// Every trace begins with this text.
inline constexpr std::string_view kTraceBeginning = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":";

// Runs `action` once under libtorch's profiler, and returns a Chrome trace: JSON for
// chrome://tracing or ui.perfetto.dev. The trace has a row for each thread of the program and each
// stream of a GPU. Events have the categories of PyTorch's own traces: cpu_op, user_annotation,
// kernel, gpu_memcpy, ... Throws the exceptions of `action`, with the profiler off again. A process
// may record one trace at a time. For a CPU sets the variable KINETO_LOG_LEVEL, unless it is set.
std::string record_trace(const at::Device& device, const std::function<void()>& action);

}  // namespace lmtrain
