#include "base/machine.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::exit_code_of;
using testing::FileSystemRoot;

int of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

TEST(Processors, ThoseOfTheAffinityMask) {
  const FileSystemRoot no_groups;
  EXPECT_EQ(available_processors(no_groups.folder()), of_affinity());
  const int code = exit_code_of([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    int one = 0;
    while (!CPU_ISSET(one, &set)) ++one;
    CPU_ZERO(&set);
    CPU_SET(one, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) return 98;
    return available_processors(no_groups.folder());
  });
  EXPECT_EQ(code, 1);
}

// Version 2: the least of all groups up to the root counts, rounded down.
TEST(Processors, NoMoreThanTheTimeOfAGroup) {
  FileSystemRoot root;
  const auto processors = [&] { return available_processors(root.folder()); };
  root.write("proc/self/cgroup", "0::/job/step\n");
  EXPECT_EQ(processors(), of_affinity());
  root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(processors(), of_affinity());
  root.write("sys/fs/cgroup/job/cpu.max", "99000000 100000\n");
  EXPECT_EQ(processors(), std::min(990, of_affinity()));
  root.write("sys/fs/cgroup/job/cpu.max", "199000 100000\n");
  EXPECT_EQ(processors(), 1);
  root.write("sys/fs/cgroup/job/cpu.max", "20000 100000\n");
  EXPECT_EQ(processors(), 1);
}

// Version 1; and a path of the host's that is not mounted here.
TEST(Processors, NoMoreThanTheTimeOfAGroupOfVersion1) {
  FileSystemRoot root;
  const auto processors = [&] { return available_processors(root.folder()); };
  root.write("proc/self/cgroup", "4:cpuset,cpu:/docker/abc\n3:memory:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(processors(), of_affinity());
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(processors(), of_affinity());
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "60000\n");
  EXPECT_EQ(processors(), 1);
}

// What cannot be read limits nothing.
TEST(Processors, OddFilesAreNoLimit) {
  FileSystemRoot root;
  root.write("proc/self/cgroup", "0::/\nnonsense\n");
  for (const char* text : {"", "x y", "100000", "100000 0"}) {
    root.write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(available_processors(root.folder()), of_affinity()) << text;
  }
}

using testing::exit_code_of;
using testing::FileSystemRoot;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(Memory, PeakFollowsWhatIsTouchedAndCanBeReset) {
  EXPECT_GT(resident_bytes(), kMiB);
  reset_peak_resident();
  const uint64_t before = peak_resident_bytes();
  {
    std::vector<char> block(64 * kMiB);
    std::memset(block.data(), 1, block.size());
    EXPECT_GT(resident_bytes(), before + 48 * kMiB);
  }
  EXPECT_GT(peak_resident_bytes(), before + 48 * kMiB);
  reset_peak_resident();
  EXPECT_LT(peak_resident_bytes(), before + 32 * kMiB);
}

std::optional<uint64_t> available(const FileSystemRoot& root) {
  return available_bytes(root.folder());
}

TEST(Memory, AvailableIsNothingWhereNothingIsKnown) {
  EXPECT_EQ(available(FileSystemRoot()), std::nullopt);
}

TEST(Memory, AvailableOfTheMachine) {
  FileSystemRoot root;
  root.write("proc/meminfo", "MemTotal:  4096 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n");
  EXPECT_EQ(available(root), 2 * kMiB);
  EXPECT_GT(available_bytes().value_or(0), kMiB);  // of this one
}

// Version 2: the least of all groups up to the root counts; caches are free.
TEST(Memory, AvailableInAGroup) {
  FileSystemRoot root;
  root.write("proc/meminfo", "MemAvailable: 1048576 kB\n");
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.current", "100\n");
  EXPECT_EQ(available(root), 1024 * kMiB);
  root.write("sys/fs/cgroup/job/memory.max", "1000\n");
  root.write("sys/fs/cgroup/job/memory.current", "700\n");
  EXPECT_EQ(available(root), 300U);
  root.write("sys/fs/cgroup/job/memory.stat", "anon 500\ninactive_file 200\nactive_file 1\n");
  EXPECT_EQ(available(root), 500U);
  root.write("sys/fs/cgroup/job/step/memory.max", "140\n");
  EXPECT_EQ(available(root), 40U);
  root.write("sys/fs/cgroup/job/step/memory.current", "150\n");  // over it, for a moment
  EXPECT_EQ(available(root), 0U);
}

// Version 1; and a path of the host's that is not mounted here.
TEST(Memory, AvailableInAGroupOfVersion1) {
  FileSystemRoot root;
  root.write("proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 500\n");
  EXPECT_EQ(available(root), 2500U);
}

TEST(Memory, AvailableUnderAnAddressSpaceLimit) {
  const int code = exit_code_of([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    const uint64_t size = 8192 * kMiB;
    limit.rlim_cur = size;
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    const uint64_t available = available_bytes().value_or(0);
    return available > 0 && available < size ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}

using testing::exit_code_of;
using testing::limit_addresses;

constexpr uint64_t kLessThanAStack = 1 << 20;

// Makes stacks larger than those that the C library keeps of threads that have ended, so that a new
// thread needs new addresses.
bool use_large_stacks() {
  constexpr size_t kBytes = size_t{1} << 28;
  pthread_attr_t attributes;
  return ::pthread_attr_init(&attributes) == 0 &&
         ::pthread_attr_setstacksize(&attributes, kBytes) == 0 &&
         ::pthread_setattr_default_np(&attributes) == 0;
}

// 0 when `action` throws an Error of memory that names the limit and the setting.
template <class Action>
int code_of_refusal(const Action& action) {
  return exit_code_of([&] {
    if (!use_large_stacks() || !limit_addresses(kLessThanAStack)) return 1;
    try {
      action();
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool names_both = message.find("ulimit -v ") != std::string::npos &&
                              message.find("lower threads") != std::string::npos;
      return error.kind() == ErrorKind::kMemory && names_both ? 0 : 2;
    }
    return 3;
  });
}

TEST(Threads, OneThatIsStartedWorks) {
  std::atomic<bool> done = false;
  start_thread([&] { done = true; }).join();
  EXPECT_TRUE(done);
}

TEST(Threads, ARefusedOneIsAnErrorThatNamesTheLimit) {
  EXPECT_EQ(code_of_refusal([] { start_thread([] {}).join(); }), 0);
}

TEST(Threads, ThoseThatCanBeHadAreAsked) {
  require_threads(0);
  require_threads(-1);
  require_threads(20);
  EXPECT_EQ(code_of_refusal([] { require_threads(3); }), 0);
}

}  // namespace

}  // namespace lmtrain
