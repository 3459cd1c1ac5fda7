#include "base/memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/support.h"

namespace lmtrain {
namespace {

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

TEST(Memory, HugePagesArePreferredForWhatTheHeapHandsOutNext) {
  constexpr uint64_t kBytes = 64 * kMiB;
  const auto preferred = [] {  // kB of addresses with the advice
    std::ifstream maps("/proc/self/smaps");
    uint64_t sum = 0, size = 0;
    for (std::string line; std::getline(maps, line);) {
      if (line.starts_with("Size:")) size = std::stoull(line.substr(5));
      if (line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos) sum += size;
    }
    return sum;
  };
  const uint64_t before = preferred(), resident = resident_bytes();
  prefer_huge_pages(kBytes);
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "none here";
  EXPECT_LT(resident_bytes(), resident + 4 * kMiB) << "touched";
  // This process gives large blocks back to the system at once, lmtrain's heap keeps them.
  EXPECT_EXIT(
      {
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, -1);
        prefer_huge_pages(kBytes);
        exit(preferred() >= before + kBytes / 1024 - 8 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_FALSE(prefer_huge_pages(~uint64_t{0} / 2)) << "more than there is";
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
    mallopt(M_MMAP_MAX, 0);  // the heap keeps what it is given, as lmtrain's does
    mallopt(M_TRIM_THRESHOLD, -1);
    if (prefer_huge_pages(512 * kMiB)) return 4;
    if (available_bytes().value_or(0) + 256 * kMiB < available) return 3;
    return available > 0 && available < size ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace lmtrain
