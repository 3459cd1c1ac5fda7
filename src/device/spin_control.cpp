#include "device/spin_control.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/machine.h"

namespace lmtrain {

bool should_wait_shortly(bool is_short, double queueing_share) {
  constexpr double kIdle = 0.05, kBusy = 0.2;
  return is_short ? queueing_share >= kIdle : queueing_share > kBusy;
}

// A team of `count` threads that has run one region and sleeps. libgomp counts its threads until
// the one that started it ends.
class SpinControl::Sleepers {
 public:
  explicit Sleepers(int count) {
    std::promise<void> begun;
    std::future<void> has_begun = begun.get_future();
    starter_ = std::thread([this, count, &begun] {
      std::atomic<int> num_begun = 0;  // the compiler drops a region that does nothing
#pragma omp parallel num_threads(count)
      num_begun.fetch_add(1);
      begun.set_value();
      end_.get_future().wait();
    });
    has_begun.wait();
  }
  ~Sleepers() {
    end_.set_value();
    starter_.join();
  }
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

 private:
  std::promise<void> end_;
  std::thread starter_;
};

SpinControl::SpinControl()
    : decided_by_user_(std::getenv("GOMP_SPINCOUNT") != nullptr ||
                       std::getenv("OMP_WAIT_POLICY") != nullptr) {}
SpinControl::~SpinControl() = default;

void SpinControl::set_short(bool is_short) {
  if (decided_by_user_ || is_short == this->is_short()) return;
  if (!is_short) {
    sleepers_.reset();
    return;
  }
  // The starter is not counted. The team of the caller has omp_get_max_threads() threads.
  const int added = std::max(omp_get_num_procs() - omp_get_max_threads(), 0) + 1;
  try {
    require_threads(added + 1);
  } catch (const Error&) {
    return;  // libgomp would end the program
  }
  sleepers_ = std::make_unique<Sleepers>(added + 1);
}

std::optional<SpinControl::Sample> SpinControl::sample() {
  std::ifstream file("/proc/thread-self/schedstat");
  int64_t running_ns = 0;
  Sample now{std::chrono::steady_clock::now()};
  if (!(file >> running_ns >> now.queued_ns)) return std::nullopt;
  return now;
}

void SpinControl::adjust() {
  constexpr auto kInterval = std::chrono::milliseconds(100);
  if (decided_by_user_) return;
  if (last_ && std::chrono::steady_clock::now() - last_->time < kInterval) return;
  const std::optional<Sample> now = sample();
  if (!now) return;
  if (last_) {
    const double elapsed =
        std::chrono::duration<double, std::nano>(now->time - last_->time).count();
    const auto queued = static_cast<double>(now->queued_ns - last_->queued_ns);
    set_short(should_wait_shortly(is_short(), queued / elapsed));
  }
  last_ = now;
}

void adjust_spinning() {
  thread_local SpinControl control;
  control.adjust();
}

}  // namespace lmtrain
