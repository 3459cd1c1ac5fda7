// Which of the instruction sets that kernels/cpu/tables.h has kernels for this processor can run.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/kernels.h"

namespace lmtrain::testing {

// What kernels/cpu/kernels.cpp decides is under test, so it is asked here again, of the levels in
// the compiler's own words.
inline bool runs(const std::string& isa) {
  // A process may use the matrix units once it has asked for them, which cpu_kernels_isa() does.
  if (isa == "amx") {
    return __builtin_cpu_supports("amx-bf16") != 0 && std::string("amx_bf16") == cpu_kernels_isa();
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
