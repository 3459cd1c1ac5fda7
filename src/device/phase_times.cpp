#include "device/phase_times.h"

#include <ATen/record_function.h>

#include <chrono>

#include "device/device_memory.h"

namespace lmtrain {
namespace {

// Callbacks are plain functions. On a GPU those of the backward come from a thread of autograd's,
// which has them of the one that waits for it.
PhaseTimes* listener = nullptr;

}  // namespace

struct PhaseClock : at::ObserverContext {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& /*phase*/) {
    synchronize(listener->device_);
    return std::make_unique<PhaseClock>();
  }
  static void stop(const at::RecordFunction& phase, at::ObserverContext* clock) {
    synchronize(listener->device_);
    const auto time = std::chrono::steady_clock::now() - static_cast<PhaseClock*>(clock)->begin;
    listener->seconds_[phase.name()] += std::chrono::duration<double>(time).count();
  }
};

PhaseTimes::PhaseTimes(const at::Device& device) : device_(device) {
  TORCH_CHECK(listener == nullptr, "PhaseTimes: one at a time");
  listener = this;
  handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(&PhaseClock::start, &PhaseClock::stop)
                                     .scopes({at::RecordScope::USER_SCOPE}));
}

PhaseTimes::~PhaseTimes() {
  at::removeCallback(handle_);
  listener = nullptr;
}

}  // namespace lmtrain
