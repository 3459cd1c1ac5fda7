#include "device/gpu_normals.h"

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "kernels/cuda/random.h"

namespace lmtrain {

void fill_with_normals(const at::Tensor& values, uint64_t key, double scale) {
  on_cuda(values, [&](const auto& call) {
    cuda::random_normals(call, elements<float>(values), values.numel(), key, scale);
  });
}

}  // namespace lmtrain
