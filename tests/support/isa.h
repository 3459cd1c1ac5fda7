// Which of the instruction sets that kernels/cpu/tables.h has kernels for this processor can run.
#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/cpu/kernels.h"

namespace lmtrain::testing {

// What kernels/cpu/kernels.cpp decides is under test, so it is asked here again, of the levels in
// the compiler's own words, and of Linux for the tile registers of the matrix units.
inline bool runs(const std::string& isa) {
  const char* capability = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string allowed = capability == nullptr ? "" : capability;
  if (isa != "baseline" && allowed == "default") return false;
  if (isa != "baseline" && isa != "avx2" && allowed == "avx2") return false;
  if (isa == "amx") {
    static_cast<void>(cpu_kernels_isa());  // asks for the permission to use them
    constexpr int kArchGetXcompSupp = 0x1021, kXfeatureXtiledata = 18;
    uint64_t features = 0;
    return runs("avx512bf16") && ::syscall(SYS_arch_prctl, kArchGetXcompSupp, &features) == 0 &&
           (features >> kXfeatureXtiledata & 1U) != 0;
  }
  if (isa == "avx512bf16") return __builtin_cpu_supports("avx512bf16") != 0;
  if (isa == "avx512") return __builtin_cpu_supports("x86-64-v4") != 0;
  if (isa == "avx2") return __builtin_cpu_supports("x86-64-v3") != 0;
  return true;
}

// The parameter of a test is an instruction set; it is skipped where this processor cannot run it.
class IsaTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!runs(GetParam())) GTEST_SKIP() << "this processor has no " << GetParam();
  }
};

}  // namespace lmtrain::testing
