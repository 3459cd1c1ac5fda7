// Asks the store of the rendezvous, which may never answer: in another thread, with a time limit,
// and with a pause between two questions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace lmtrain {

// Calls `work` in another thread, and returns its result or throws its exception. Returns nothing
// if `work` takes longer than `limit`; its thread goes on, so `work` must own all that it uses.
// Meanwhile this thread calls `poll` every 50 ms, and passes on its exceptions. If no thread can be
// started, this thread calls `work`, without a limit.
template <class Work>
auto within_or_throw(
    std::chrono::steady_clock::duration limit, Work work, const std::function<void()>& poll = [] {})
    -> std::optional<std::invoke_result_t<Work>> {
  using Clock = std::chrono::steady_clock;
  using Result = std::invoke_result_t<Work>;
  auto promise = std::make_shared<std::promise<Result>>();
  std::future<Result> future = promise->get_future();
  const auto answer = [promise, work = std::move(work)] {
    try {
      promise->set_value(work());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  };
  const Clock::time_point deadline = Clock::now() + limit;
  try {
    std::thread(answer).detach();
  } catch (const std::system_error&) {
    answer();
  }
  const Clock::duration slice = std::chrono::milliseconds(50);
  while (future.wait_until(std::min(deadline, Clock::now() + slice)) != std::future_status::ready) {
    if (Clock::now() >= deadline) return std::nullopt;
    poll();
  }
  return future.get();
}

// Does the same without `poll`, and returns nothing if `work` throws a std::exception.
template <class Work>
auto within(std::chrono::steady_clock::duration limit, Work work)
    -> std::optional<std::invoke_result_t<Work>> {
  try {
    return within_or_throw(limit, std::move(work));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Waits 5 ms at first, then twice as long each time, up to 1 ms for each process: 20 ms at least,
// 500 ms at most.
class Pause {
 public:
  explicit Pause(size_t num_processes)
      : longest_(std::clamp(Milliseconds(num_processes), Milliseconds(20), Milliseconds(500))) {}
  void wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, longest_);
  }

 private:
  using Milliseconds = std::chrono::milliseconds;
  Milliseconds next_{5};
  Milliseconds longest_;
};

}  // namespace lmtrain
