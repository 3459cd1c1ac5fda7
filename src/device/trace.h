// Records a profile as a Chrome trace: JSON for chrome://tracing or ui.perfetto.dev. libtorch's
// profiler sees every ATen operator, kernels on a GPU, and the scopes marked with
// RECORD_USER_SCOPE.
//
// The trace has one row per thread of the program, and one per stream of a GPU. Events have the
// categories of PyTorch's own traces: cpu_op, user_annotation, kernel, gpu_memcpy, cuda_runtime,
// ... Only one trace may be recorded at a time in a process.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>

namespace lmtrain {

// Every trace begins with this text.
inline constexpr std::string_view kTraceBeginning = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":";

// Runs `action` once with the profiler on and returns the trace as text (JSON). Throws what
// `action` throws; the profiler is off then too. For a CPU it sets KINETO_LOG_LEVEL, unless that is
// set.
std::string record_trace(const at::Device& device, const std::function<void()>& action);

}  // namespace lmtrain
