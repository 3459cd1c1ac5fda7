// Sums the gradient of a step over the processes, also while the backward pass goes on. The flat
// gradient is divided into chunks, in the order in which the backward pass finishes them
// (backward_chunks() of model/weight_pieces.h). A process begins the sum of a chunk once it has
// finished that chunk and all earlier chunks. All processes use this order, so they need not tell
// each other which chunk comes next.
//
// Every process must make the same calls of begin() and wait(). Between the two it must finish all
// elements, also after a failure. Only one thread may call an object at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/ranges.h"
#include "distributed/work_line.h"
#include "model/parameters.h"

namespace lmtrain {

class OverlappedSum {
 public:
  // `chunks` cover the layout. After the sum of a chunk each process has the sums of its own range
  // of the chunk; with `gathers`, of the whole chunk. `lines` must live as long as this object.
  OverlappedSum(ExchangeLines& lines, const ParameterLayout& layout,
                std::vector<DividedRange> chunks, bool gathers);

  // Begins a step: all elements of its flat gradient are unfinished.
  void begin(const at::Tensor& gradient);
  // Marks `size` elements from `first` as finished: nobody writes them before wait(). An element of
  // a tensor is finished once a step; the gaps between tensors need not be.
  void finish(int64_t first, int64_t size);
  // Marks all elements as finished, whatever their values. It serves processes that have failed or
  // have no rows, and gradients that are summed after the backward pass.
  void finish_all();
  // Returns whether elements were finished since begin().
  bool has_finished_any() const { return has_finished_any_; }
  // Waits for the sums of all chunks. Rethrows the error of a thread in which a sum failed.
  void wait();

 private:
  // Begins the sums of finished chunks, up to the first chunk that is unfinished.
  void sum_finished();

  ExchangeLines& lines_;
  std::shared_ptr<const std::vector<DividedRange>> chunks_;  // shared with the sums under way
  std::vector<int64_t> numels_;                              // elements of each chunk, without gaps
  bool gathers_;
  at::Tensor gradient_;
  std::vector<int64_t> unfinished_;  // by chunk: elements that are not finished
  size_t next_ = 0;                  // the first chunk whose sum has not begun
  bool has_finished_any_ = false;
};

}  // namespace lmtrain
