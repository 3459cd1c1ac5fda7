#include "device/captured_graph.h"

#include "base/text.h"
#include "device/dispatch.h"

namespace lmtrain {
namespace {

class KeptWork : public CapturedGraph {
 public:
  explicit KeptWork(Work work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  Work work_;
};

class WorkKeeper : public GraphRecorder {
 public:
  void warm_up(const Work& work) override { work(); }
  std::unique_ptr<CapturedGraph> capture(const Work& work) override {
    return std::make_unique<KeptWork>(work);
  }
};

}  // namespace

std::string why_no_graphs(const at::Device& device) {
  if (device.is_cpu()) return "graphs are captured on a GPU";
  if (!kHasCudaKernels) return "this program was built without GPU code";
  if (!cuda_kernels_serve(device)) return str("this program has no GPU code for ", device.str());
  return "";
}

std::unique_ptr<GraphRecorder> graph_recorder(const at::Device& device) {
  if constexpr (kHasCudaKernels) {
    if (device.is_cuda()) return cuda::graph_recorder(device);
  }
  return std::make_unique<WorkKeeper>();
}

}  // namespace lmtrain
