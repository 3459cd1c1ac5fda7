// A KeyValueCache keeps rotated keys and values of earlier positions of rows, layer by layer, so
// that the model computes only the next position of a row.
//
// It has 2 x layers x rows x key/value heads x positions x head size elements; the positions grow
// with the longest row, by doubling, up to max_length. Not thread-safe.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lmtrain {

struct KeyValueSizes {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t max_length = 0;  // the most positions of a row
};

class KeyValueCache {
 public:
  // Holds `rows` empty rows. `options` give dtype and device.
  KeyValueCache(const KeyValueSizes& sizes, int64_t rows, const at::TensorOptions& options);

  int64_t rows() const { return static_cast<int64_t>(lengths_.size()); }
  // Returns how many positions of a row the cache holds.
  int64_t length(int64_t row) const { return lengths_[static_cast<size_t>(row)]; }
  // Sets how many positions of a row the cache holds. There must be room for them.
  void set_length(int64_t row, int64_t length) { lengths_[static_cast<size_t>(row)] = length; }
  // Makes room for `length` positions of every row, and keeps the contents. Throws Error(kInternal)
  // above max_length.
  void reserve(int64_t length);
  // Makes row `to` a copy of row `from`.
  void copy_row(int64_t from, int64_t to);

  // Return a view of each layer, [count, K, length, E]: `count` rows from `first` on, and their
  // positions below `length`, for which there must be room. Unused positions hold finite numbers. A
  // later reserve() may detach the views from the cache.
  c10::List<at::Tensor> keys(int64_t first, int64_t count, int64_t length) const;
  c10::List<at::Tensor> values(int64_t first, int64_t count, int64_t length) const;

 private:
  KeyValueSizes sizes_;
  std::vector<at::Tensor> keys_, values_;  // of each layer, [rows, K, capacity, E]
  std::vector<int64_t> lengths_;
  int64_t capacity_ = 0;
};

}  // namespace lmtrain
