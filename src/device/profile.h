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

// A PhaseTimes listens, as long as it lives, to the thread that made it, and to the threads on
// which autograd works for that thread. The thread that made it must also destroy it. Only one may
// live at a time: a second one throws c10::Error. On a GPU every phase then begins and ends with a
// synchronisation, so that a phase's time includes the work that it queues.
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

// Runs `action` once with libtorch's profiler on, and returns a Chrome trace: JSON for
// chrome://tracing or ui.perfetto.dev. The trace has one row for each thread of the program, and
// one for each stream of a GPU. Events have the categories of PyTorch's own traces: cpu_op,
// user_annotation, kernel, gpu_memcpy, cuda_runtime, ... Throws the exceptions of `action`; the
// profiler is off then too. Only one trace may be recorded at a time in a process. For a CPU it
// sets KINETO_LOG_LEVEL, unless that is set.
std::string record_trace(const at::Device& device, const std::function<void()>& action);

}  // namespace lmtrain
