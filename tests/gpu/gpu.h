// The GPU of a test, if there is one.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "ops/device.h"

namespace lmtrain::testing {

inline std::optional<at::Device> gpu() {
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
