#include "ops/accumulate.h"

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {

void accumulate(const at::Tensor& part, const at::Tensor& sum, bool first) {
  if (!has_kernel(part)) {
    first ? sum.copy_(part.reshape(-1)) : sum.add_(part.reshape(-1));
    return;
  }
  const at::Tensor flat = part.contiguous();
  on_cpu(flat, [&]<class T>(T) {
    parallel_for_queued(flat.numel(), grain_rows(1), [&](int64_t begin, int64_t end) {
      cpu_kernels<T>().accumulate(elements<T>(flat) + begin, elements<float>(sum) + begin,
                                  end - begin, first);
    });
  });
  on_cuda(flat, [&](const auto& call) {
    cuda::accumulate(call, flat.data_ptr(), elements<float>(sum), flat.numel(), first);
  });
}

}  // namespace lmtrain
