#include "model/micro_batch.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"

namespace lmtrain {

MicroBatch micro_batch(const at::Tensor& ids, const at::Tensor& targets, double scale,
                       const std::vector<int32_t>& segments, const at::Device& device,
                       const std::vector<int64_t>& dropout_keys) {
  MicroBatch micro{ids, targets, host_buffer({}, at::kDouble, device), {}, {}, {}};
  *micro.scale.data_ptr<double>() = scale;
  if (!dropout_keys.empty()) {
    micro.dropout_keys =
        host_buffer({static_cast<int64_t>(dropout_keys.size())}, at::kLong, device);
    std::ranges::copy(dropout_keys, micro.dropout_keys.data_ptr<int64_t>());
  }
  if (segments.empty()) return micro;
  const int64_t num_positions = ids.numel();
  const int64_t length = ids.size(1);
  // FlashAttention on a GPU takes no more segments than a grid has rows of blocks.
  constexpr size_t kMostOnGpu = 65535;
  const size_t most = std::max(kMostOnGpu, segments.size());
  const auto num_bounds = static_cast<int64_t>(std::min(std::bit_ceil(segments.size()), most)) + 1;
  micro.bounds = host_buffer({num_bounds}, at::kInt, device);
  micro.positions = host_buffer({num_positions}, at::kLong, device);
  int32_t* const bounds = micro.bounds.data_ptr<int32_t>();
  std::fill(std::copy(segments.begin(), segments.end(), bounds), bounds + num_bounds,
            static_cast<int32_t>(num_positions));
  int64_t* position = micro.positions.data_ptr<int64_t>();
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t begin = segments[i];
    const int64_t end = i + 1 < segments.size() ? segments[i + 1] : num_positions;
    if ((i == 0 && begin != 0) || end <= begin || end > (begin / length + 1) * length) {
      throw Error(ErrorKind::kInternal,
                  str("segment ", i, " of ", segments.size(), " covers [", begin, ", ", end,
                      ") in rows of ", length, ": out of order, or over the end of a row"));
    }
    std::iota(position + begin, position + end, int64_t{0});
  }
  return micro;
}

MicroBatch MicroBatch::to(const at::Device& device) const {
  const auto send = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  return {send(ids), send(targets), send(scale), send(bounds), send(positions), send(dropout_keys)};
}

}  // namespace lmtrain
