// Bank conflicts in shared memory: that the emulator counts them, and that the kernels have none.
#include <cstdio>

#include "arrays.h"

namespace lmtrain::emulated {
namespace {

using emulation::BankUse;
using emulation::CountBanks;
using emulation::Shared;

// The cost of one warp's accesses to shared memory, `kernel` being run by one block.
template <class Kernel>
BankUse use_of(const Kernel& kernel) {
  const CountBanks count;
  emulation::launch("test", +kernel, 1, 32, 0, nullptr)(0);
  return CountBanks::of_kernels().at("test");
}

float seen;  // so that a kernel's reads are of use

void expect_use(const BankUse& use, int64_t accesses, int64_t conflicts, int most_ways) {
  EXPECT_EQ(use.accesses, accesses);
  EXPECT_EQ(use.conflicts, conflicts);
  EXPECT_EQ(use.most_ways, most_ways);
}

TEST(BankConflicts, NeighboursHaveNone) {
  expect_use(use_of([](int) {
               static Shared<float[32]> shared;
               shared[threadIdx.x] = 1;
               __syncthreads();
               shared[31 - threadIdx.x] += 1;
             }),
             3, 0, 1);
}

TEST(BankConflicts, AColumnOfAPowerOfTwoIsServedWordByWord) {
  expect_use(use_of([](int) {
               static Shared<float[32][32]> shared;
               shared[threadIdx.x][0] = 1;
             }),
             1, 31, 32);
  expect_use(use_of([](int) {
               static Shared<float[32][33]> shared;
               shared[threadIdx.x][0] = 1;
             }),
             1, 0, 1);
}

TEST(BankConflicts, OneWordForAllIsServedAtOnce) {
  expect_use(use_of([](int) {
               static Shared<float[2]> shared;
               if (threadIdx.x == 0) shared[1] = 1;
               __syncthreads();
               seen = shared[1] + shared[threadIdx.x % 2];
             }),
             3, 0, 1);
}

TEST(BankConflicts, WordsOfEightBytesAreServedToHalfAWarp) {
  expect_use(use_of([](int) {
               static Shared<double[32]> shared;
               shared[threadIdx.x] = 1;
             }),
             1, 0, 1);
  expect_use(use_of([](int) {
               static Shared<double[64]> shared;
               shared[2 * threadIdx.x] = 1;
             }),
             1, 2, 2);
}

// Lanes that take a branch another number of times are compared access by access.
TEST(BankConflicts, AccessesOfALoopAreToldApart) {
  expect_use(use_of([](int) {
               static Shared<float[32][32]> shared;
               for (unsigned i = 0; i < threadIdx.x % 3; ++i) shared[i][threadIdx.x] = 1;
             }),
             2, 0, 1);
}

TEST(BankConflictsDeathTest, AnIndexBeyondTheArrayEndsTheTest) {
  const auto beyond = [](int) {
    static Shared<float[32]> shared;
    shared[threadIdx.x + 1] = 1;
  };
  EXPECT_DEATH(emulation::launch("test", +beyond, 1, 32, 0, nullptr)(0), "out of shared memory");
}

// The kernels in the shapes of a model, and of rows that take other ways through them.
template <class T>
void run_kernels() {
  const cuda::Call call{type_of<T>(), nullptr};
  for (const int64_t dim : {768, 4608}) {
    constexpr int64_t kRows = 9;
    Array<T> x(kRows * dim), weight(dim), y(kRows * dim), dy(kRows * dim), dx(kRows * dim), dw(dim);
    Array<float> rstd(kRows), partial(cuda::rms_norm_partials(kRows) * dim);
    x.fill(1);
    weight.fill(2);
    dy.fill(3);
    cuda::rms_norm_forward(call, x.data(), nullptr, weight.data(), nullptr, y.data(), rstd.data(),
                           kRows, dim, 1e-5F);
    cuda::rms_norm_backward(call, dy.data(), nullptr, x.data(), weight.data(), rstd.data(),
                            dx.data(), dw.data(), partial.data(), kRows, dim);
  }
  constexpr int64_t kVocab = 32003;
  constexpr double kGradScale = 1;
  Array<T> logits(2 * kVocab);
  Array<float> losses(2);
  const int64_t targets[] = {5, 7};
  logits.fill(4);
  cuda::cross_entropy(call, logits.data(), targets, losses.data(), 2, kVocab, &kGradScale, 0);
  constexpr int64_t kRows = 272, kColumns = 144;
  Array<T> x(kRows * kColumns);
  x.fill(5);
  Array<float> amax(cuda::fp8_amax_parts(x.size())), inverse_scale(1);
  std::vector<uint64_t> by_rows(kRows * kColumns / 8), by_columns(by_rows.size());
  cuda::fp8_amax(call, x.data(), amax.data(), x.size());
  cuda::fp8_cast(call, x.data(), amax.data(), amax.size(), cuda::Fp8Format::kE4M3,
                 reinterpret_cast<uint8_t*>(by_rows.data()),
                 reinterpret_cast<uint8_t*>(by_columns.data()), inverse_scale.data(), kRows, kRows,
                 kColumns);
}

// The most words that a kernel may want of one bank at once.
constexpr int kMostWays = 1;

TEST(BankConflicts, TheKernelsHaveNone) {
  const CountBanks count;
  run_kernels<float>();
  run_kernels<__nv_bfloat16>();
  run_kernels<__half>();
  Array<float> x(5000);
  x.fill(1);
  std::vector<double> partial(cuda::kSumOfSquaresPartials);
  double sum = 0;
  cuda::sum_of_squares({cuda::ElementType::kFloat, nullptr}, x.data(), partial.data(), &sum,
                       x.size());
  std::printf("%-36s %9s %9s %9s\n", "kernel", "accesses", "conflicts", "most ways");
  std::vector<std::string> kernels;
  for (const auto& [kernel, use] : CountBanks::of_kernels()) {
    if (use.accesses == 0) continue;
    std::printf("%-36s %9lld %9lld %9d\n", kernel.c_str(), static_cast<long long>(use.accesses),
                static_cast<long long>(use.conflicts), use.most_ways);
    EXPECT_LE(use.most_ways, kMostWays) << kernel;
    kernels.push_back(kernel);
  }
  // All that have shared memory.
  EXPECT_EQ(kernels, (std::vector<std::string>{"cross_entropy.cu:kernel", "fp8.cu:amax_kernel",
                                               "fp8.cu:cast_kernel", "gradients.cu:sum_kernel",
                                               "gradients.cu:sum_of_squares_kernel",
                                               "rms_norm.cu:backward_kernel", "rms_norm.cu:forward",
                                               "rms_norm.cu:sum_partials_kernel"}));
}

}  // namespace
}  // namespace lmtrain::emulated
