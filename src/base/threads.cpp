#include "base/threads.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/control_group.h"
#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

[[noreturn]] void fail_refused(const std::string& what, const std::string& reason) {
  const std::string limits = thread_limits();
  throw Error(
      ErrorKind::kMemory,
      str(what, ": ", reason, limits.empty() ? "" : " (limits: " + limits + ")",
          "; raise the limit, or lower threads (OMP_NUM_THREADS where there is no config)"));
}

// Allocates nothing, so that the heap is as it was afterwards.
void* wait_until_set(void* flag) {
  static_cast<const std::atomic<bool>*>(flag)->wait(false);
  return nullptr;
}

int64_t running_threads() {
  std::ifstream status("/proc/self/status");
  int64_t count = 0;
  for (std::string word; status >> word;) {
    if (word == "Threads:" && status >> count) break;
  }
  return count;
}

// A thread that was joined counts until the kernel has cleared it away.
void wait_for_threads(int64_t count) {
  constexpr int kMostWaits = 2000;
  for (int waits = 0; running_threads() > count && waits < kMostWaits; ++waits)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
}

}  // namespace

std::thread start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail_refused("cannot start a thread", error.code().message());
  }
}

void require_threads(int count) {
  const int64_t before = running_threads();
  std::atomic<bool> may_end = false;
  std::vector<pthread_t> threads;
  threads.reserve(static_cast<size_t>(std::max(count, 0)));
  int refusal = 0;
  for (int i = 0; i < count && refusal == 0; ++i) {
    pthread_t thread{};
    refusal = ::pthread_create(&thread, nullptr, wait_until_set, &may_end);
    if (refusal == 0) threads.push_back(thread);
  }
  may_end = true;
  may_end.notify_all();
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  wait_for_threads(before);
  if (refusal != 0) {
    fail_refused(str("this run needs ", counted(count, "thread"), " beside the first, and ",
                     threads.size(), " can be had"),
                 std::strerror(refusal));
  }
}

std::string thread_limits() {
  std::vector<std::string> limits;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(str("ulimit -u ", limit.rlim_cur));
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(str("ulimit -v ", limit.rlim_cur >> 10));
  for (const ControlGroup& group : control_groups("pids")) {
    std::ifstream file(group.folder / "pids.max");
    uint64_t most = 0;
    if (file >> most) limits.push_back(str("pids.max ", most));
  }
  return join(limits, ", ");
}

}  // namespace lmtrain
