// A question to a store, or to whatever else may never answer, is asked by a thread of its own.
#pragma once

#include <algorithm>
#include <chrono>
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

// Returns what `work` returns, called by another thread; nothing where it throws a std::exception
// or takes longer than `limit`. The thread may go on for ever then, so `work` must own all that it
// uses. Meanwhile `poll` is called some times a second; what it throws leaves this call. Where no
// thread can be had, this one calls `work`, without a limit.
template <class Work>
auto within(
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
  try {
    return future.get();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace lmtrain
