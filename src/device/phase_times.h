// Measures how long the named phases of a step take. A phase is a scope that the code marks with
// RECORD_USER_SCOPE("forward"), which costs nothing while nobody listens.
//
// While a PhaseTimes lives it listens to the thread that made it, which must also destroy it, and
// to the threads on which autograd works for that thread. Only one may live at a time: a second one
// throws c10::Error. On a GPU every phase then begins and ends with a synchronisation, so that a
// phase's time includes the work that it queues.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace lmtrain {

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

}  // namespace lmtrain
