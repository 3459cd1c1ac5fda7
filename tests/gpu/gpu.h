// The GPU of a test, if there is one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "device/device.h"

namespace lmtrain::testing {

// cuBLAS reads its workspaces' sizes when it is first used: those of deterministic runs, since a
// later test may be one.
inline std::optional<at::Device> gpu() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  try {
    return resolve_device("cuda");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Empty where it computes in fp8.
inline std::string why_no_fp8(const at::Device& device) {
  try {
    resolve_precision("fp8", device);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

#define SKIP_WITHOUT_GPU(device) \
  if (!(device)) GTEST_SKIP() << "no GPU on this machine"

}  // namespace lmtrain::testing
