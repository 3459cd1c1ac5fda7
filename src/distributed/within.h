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

// Returns what `work` returns, called by another thread, or throws what it throws; returns nothing
// where it takes longer than `limit`. The thread may go on for ever then, so `work` must own all
// that it uses. Meanwhile `poll` is called some times a second; what it throws leaves this call.
// Where no thread can be had, this one calls `work`, without a limit.
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

// Does the same, and returns nothing where `work` throws a std::exception.
template <class Work>
auto within(std::chrono::steady_clock::duration limit, Work work)
    -> std::optional<std::invoke_result_t<Work>> {
  try {
    return within_or_throw(limit, std::move(work));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace lmtrain
