#include "base/processors.h"

#include <sched.h>

#include <algorithm>

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

}  // namespace
}  // namespace lmtrain
