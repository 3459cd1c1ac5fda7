#include "model/key_value_cache.h"

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

constexpr int64_t kLeastCapacity = 64;

c10::List<at::Tensor> part(const std::vector<at::Tensor>& layers, int64_t first, int64_t count,
                           int64_t length) {
  c10::List<at::Tensor> views;
  for (const at::Tensor& x_BKSE : layers) {
    views.push_back(x_BKSE.narrow(0, first, count).narrow(2, 0, length));
  }
  return views;
}

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueSizes& sizes, int64_t rows,
                             const at::TensorOptions& options)
    : sizes_(sizes), lengths_(static_cast<size_t>(rows), 0) {
  const at::Tensor empty = at::empty({rows, sizes.kv_heads, 0, sizes.head_size}, options);
  keys_.assign(static_cast<size_t>(sizes.layers), empty);
  values_ = keys_;
}

void KeyValueCache::reserve(int64_t length) {
  if (length <= capacity_) return;
  if (length > sizes_.max_length) {
    throw Error(ErrorKind::kInternal,
                str("a cache for ", length, " positions in a model of ", sizes_.max_length));
  }
  const int64_t wanted = std::max({length, 2 * capacity_, kLeastCapacity});
  const int64_t capacity = std::min(wanted, sizes_.max_length);
  for (std::vector<at::Tensor>* layers : {&keys_, &values_}) {
    for (at::Tensor& x_BKSE : *layers) {
      // Zeros, since what a mask hides is still multiplied by 0.
      at::Tensor larger =
          at::zeros({x_BKSE.size(0), x_BKSE.size(1), capacity, x_BKSE.size(3)}, x_BKSE.options());
      larger.narrow(2, 0, capacity_).copy_(x_BKSE);
      x_BKSE = std::move(larger);
    }
  }
  capacity_ = capacity;
}

void KeyValueCache::copy_row(int64_t from, int64_t to) {
  const int64_t kept = length(from);
  for (const std::vector<at::Tensor>* layers : {&keys_, &values_}) {
    for (const at::Tensor& x_BKSE : *layers)
      x_BKSE[to].narrow(1, 0, kept).copy_(x_BKSE[from].narrow(1, 0, kept));
  }
  set_length(to, kept);
}

c10::List<at::Tensor> KeyValueCache::keys(int64_t first, int64_t count, int64_t length) const {
  return part(keys_, first, count, length);
}

c10::List<at::Tensor> KeyValueCache::values(int64_t first, int64_t count, int64_t length) const {
  return part(values_, first, count, length);
}

}  // namespace lmtrain
