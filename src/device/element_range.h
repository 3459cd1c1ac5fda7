// An ElementRange says which elements of a flat tensor are meant: those from `first` up to end().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lmtrain {

struct ElementRange {
  int64_t first = 0, size = 0;
  int64_t end() const { return first + size; }
  bool contains(int64_t element) const { return element >= first && element < end(); }
  bool operator==(const ElementRange&) const = default;

  // Returns a view of these elements of `flat`, which is one-dimensional.
  at::Tensor of(const at::Tensor& flat) const { return flat.narrow(0, first, size); }
};

}  // namespace lmtrain
