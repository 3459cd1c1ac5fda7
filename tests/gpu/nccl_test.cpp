// Exchanges between processes by NCCL, on GPUs. With one GPU: one process, whose training in graph
// mode has the bits of a run without processes. With two: two ranks as threads.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/sin.h>

#include "device/side_stream.h"
#include "distributed/group.h"
#include "gpu.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::gpu;
using testing::Json;
using testing::TinyRun;

constexpr const char* kPastNccl = "through host memory and Gloo";

// Empty where the library can be had.
std::string why_no_nccl() {
  std::string problem;
  load_nccl(NcclLibrary().file, problem);
  return problem;
}

#define SKIP_WITHOUT_NCCL(device) \
  SKIP_WITHOUT_GPU(device);       \
  if (const std::string why = why_no_nccl(); !why.empty()) GTEST_SKIP() << why

at::Tensor values_of(int rank, const at::Device& device) {
  const at::Tensor index = at::arange(100'003, at::kDouble) + 1000.0 * rank;
  return at::sin(index).to(at::kFloat).to(device);
}

// Does `work` as each rank; returns whether NCCL did the exchanges.
bool by_nccl(int count, const std::function<void(Processes&)>& work,
             const NcclLibrary& library = {}) {
  ::testing::internal::CaptureStderr();
  as_ranks(count, work, library);
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::fputs(log.c_str(), stderr);
  return log.find(kPastNccl) == std::string::npos;
}

TEST(GpuNccl, OneProcessGetsItsOwnValues) {
  const auto device = gpu();
  SKIP_WITHOUT_NCCL(device);
  EXPECT_TRUE(by_nccl(1, [&](Processes& processes) {
    const at::Tensor expected = values_of(0, *device);
    const at::Tensor flat = expected.clone();
    processes.all_reduce(flat);
    EXPECT_TRUE(at::equal(flat, expected));
    sum_by_ranges(processes, flat);
    EXPECT_TRUE(at::equal(flat, expected));
    processes.broadcast(flat);
    EXPECT_TRUE(at::equal(flat, expected));
  }));
}

// The exchanges of divided weights: a connection beside the processes' own, on another stream, by
// groups of calls of NCCL.
TEST(GpuNccl, AnExtraGroupExchangesOnAStreamOfItsOwn) {
  const auto device = gpu();
  SKIP_WITHOUT_NCCL(device);
  NcclLibrary library;
  library.keeps_order = false;
  EXPECT_TRUE(by_nccl(
      1,
      [&](Processes& processes) {
        RangeExchange& group = *processes.extra_groups(1, *device).front();
        const auto side = side_stream(*device);
        const at::Tensor expected = values_of(0, *device);
        const at::Tensor flat = expected.clone();
        const std::vector<ElementRange> ranges = {{7, 100'000 - 7}};
        std::thread([&, mark = side->mark()] {
          side->after(mark, [&] {
            group.reduce_scatter(flat, ranges);
            group.all_gather(flat, ranges);
          });
        }).join();
        EXPECT_TRUE(at::equal(flat, expected));
        processes.all_reduce(flat);
        EXPECT_TRUE(at::equal(flat, expected));
      },
      library));
}

// Sums are queued behind the graphs' work on the current stream, and the update's graph behind
// them.
TEST(GpuNccl, ARunInGraphModeHasTheBitsOfARunWithoutProcesses) {
  const auto device = gpu();
  SKIP_WITHOUT_NCCL(device);
  if (!why_no_graphs(*device).empty()) GTEST_SKIP() << why_no_graphs(*device);
  const Json settings = {
      {"device", "cuda"}, {"precision", "bf16"}, {"compile", "graph"}, {"deterministic", true}};
  const TinyRun alone(settings);
  alone.trainer().run();
  const TinyRun tiny(settings);
  EXPECT_TRUE(by_nccl(1, [&](Processes& processes) {
    Trainer(tiny.config, tiny.data, tiny.run, std::nullopt, {}, processes).run();
  }));
  EXPECT_TRUE(tiny.bytes(40) == alone.bytes(40));
}

TEST(GpuNccl, TwoGpusHaveTheSameSums) {
  const auto device = gpu();
  SKIP_WITHOUT_NCCL(device);
  if (at::detail::getCUDAHooks().deviceCount() < 2) GTEST_SKIP() << "one GPU";
  std::vector<at::Tensor> sums(2), trees(2);
  EXPECT_TRUE(by_nccl(2, [&](Processes& processes) {
    const auto rank = static_cast<size_t>(processes.rank());
    const at::Device own(at::kCUDA, static_cast<c10::DeviceIndex>(rank));
    const at::Tensor sum = values_of(processes.rank(), own);
    const at::Tensor tree = sum.clone();
    processes.all_reduce(sum);
    sum_by_ranges(processes, tree);
    sums[rank] = sum.cpu();
    trees[rank] = tree.cpu();
    processes.broadcast(tree.mul_(processes.rank() + 1));
    EXPECT_TRUE(at::equal(tree.cpu(), trees[rank]));
  }));
  const at::Tensor expected = values_of(0, at::kCPU) + values_of(1, at::kCPU);
  for (const size_t rank : {0, 1}) {
    EXPECT_TRUE(at::equal(sums[rank], expected));
    EXPECT_TRUE(at::equal(trees[rank], expected));
  }
}

TEST(GpuNccl, TwoProcessesOnOneGpuGoPastIt) {
  const auto device = gpu();
  SKIP_WITHOUT_NCCL(device);
  EXPECT_FALSE(by_nccl(2, [&](Processes& processes) {
    const at::Tensor sum = values_of(processes.rank(), *device);
    processes.all_reduce(sum);
    EXPECT_TRUE(at::equal(sum.cpu(), values_of(0, at::kCPU) + values_of(1, at::kCPU)));
  }));
}

}  // namespace
}  // namespace lmtrain
