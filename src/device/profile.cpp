#include "device/profile.h"

#include <ATen/record_function.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include "base/text.h"
#include "device/device_memory.h"

namespace lmtrain {
namespace {

using torch::profiler::impl::ActivityType;

// A global, since callbacks are plain functions. On a GPU a thread of autograd calls them in the
// backward, as it inherits the callbacks of the thread that waits for it.
PhaseTimes* listener = nullptr;

namespace profiler = torch::autograd::profiler;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return str(out, '"');
}

std::string shapes_text(const profiler::KinetoEvent& event) {
  std::vector<std::string> shapes;
  for (const std::vector<int64_t>& shape : event.shapes()) {
    std::vector<std::string> sizes;
    sizes.reserve(shape.size());
    for (const int64_t size : shape) sizes.push_back(std::to_string(size));
    shapes.push_back(str("[", join(sizes, ","), "]"));
  }
  return str("[", join(shapes, ","), "]");
}

// The `cat` that other profilers write, and that tools select by.
std::string category(const profiler::KinetoEvent& event) {
  using Type = libkineto::ActivityType;
  switch (static_cast<Type>(event.activityType())) {
    case Type::CPU_OP:
      return "cpu_op";
    case Type::USER_ANNOTATION:
      return "user_annotation";
    case Type::GPU_USER_ANNOTATION:
      return "gpu_user_annotation";
    case Type::GPU_MEMCPY:
      return "gpu_memcpy";
    case Type::GPU_MEMSET:
      return "gpu_memset";
    case Type::CONCURRENT_KERNEL:
      return "kernel";
    case Type::CUDA_RUNTIME:
      return "cuda_runtime";
    case Type::CUDA_DRIVER:
      return "cuda_driver";
    case Type::CUDA_SYNC:
      return "cuda_sync";
    case Type::OVERHEAD:
      return "overhead";
    default:
      return event.deviceType() == c10::DeviceType::CPU ? "cpu_op" : "kernel";
  }
}

std::string microseconds(uint64_t nanoseconds) {
  return printed("%.3f", static_cast<double>(nanoseconds) * 1e-3);
}

}  // namespace

struct PhaseClock : at::ObserverContext {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& /*phase*/) {
    synchronize(listener->device_);
    return std::make_unique<PhaseClock>();
  }
  static void stop(const at::RecordFunction& phase, at::ObserverContext* clock) {
    synchronize(listener->device_);
    const auto time = std::chrono::steady_clock::now() - static_cast<PhaseClock*>(clock)->begin;
    listener->seconds_[phase.name()] += std::chrono::duration<double>(time).count();
  }
};

PhaseTimes::PhaseTimes(const at::Device& device) : device_(device) {
  TORCH_CHECK(listener == nullptr, "PhaseTimes: one at a time");
  listener = this;
  handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(&PhaseClock::start, &PhaseClock::stop)
                                     .scopes({at::RecordScope::USER_SCOPE}));
}

PhaseTimes::~PhaseTimes() {
  at::removeCallback(handle_);
  listener = nullptr;
}

std::string record_trace(const at::Device& device, const std::function<void()>& action) {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cpu()) {
    // The profiler's library looks for a GPU in any case, and calls it an error that there is none.
    ::setenv("KINETO_LOG_LEVEL", "99", /*replace=*/0);
  } else {
    activities.insert(ActivityType::CUDA);
  }
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities, {});
  std::unique_ptr<profiler::ProfilerResult> result;
  try {
    action();
  } catch (...) {
    profiler::disableProfiler();
    throw;
  }
  result = profiler::disableProfiler();

  // "X" is an event with its duration; pid 0 is the program, 1 + n GPU n.
  std::string text = str(kTraceBeginning, "[\n");
  text += R"({"ph":"M","name":"process_name","pid":0,"args":{"name":"lmtrain"}})";
  if (!device.is_cpu()) {
    text += str(",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", 1 + device.index(),
                ",\"args\":{\"name\":\"GPU ", static_cast<int>(device.index()), "\"}}");
  }
  for (const profiler::KinetoEvent& event : result->events()) {
    const bool on_cpu = event.deviceType() == c10::DeviceType::CPU;
    text +=
        str(",\n{\"ph\":\"X\",\"cat\":\"", category(event), "\",\"name\":", quoted(event.name()),
            ",\"pid\":", on_cpu ? 0 : 1 + event.deviceIndex(), ",\"tid\":",
            on_cpu ? static_cast<int64_t>(event.startThreadId()) : event.deviceResourceId(),
            ",\"ts\":", microseconds(event.startNs() - result->trace_start_ns()),
            ",\"dur\":", microseconds(event.durationNs()));
    if (event.hasShapes()) text += str(",\"args\":{\"shapes\":", shapes_text(event), "}");
    text += "}";
  }
  return text + "\n]}\n";
}

}  // namespace lmtrain
