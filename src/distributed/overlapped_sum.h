// Sums the gradient of a step over the processes, also while the backward goes on. The flat
// gradient is divided into chunks, in the order in which the backward finishes them
// (backward_chunks() of model/weight_pieces.h). The sum of a chunk begins as soon as all of its
// elements are finished here, and those of the chunks ahead of it. Every process does the same, so
// the sums of a chunk meet without a word more.
//
// Every process must make the same calls of begin() and wait(), and finish all elements between the
// two, whatever they hold, one call at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/parameters.h"
#include "distributed/ranges.h"
#include "distributed/work_line.h"

namespace lmtrain {

class OverlappedSum {
 public:
  // `chunks` cover the layout. After its sum each process has its part of a chunk, and with
  // `gathers` all of it. `lines` must live as long as this object.
  OverlappedSum(ExchangeLines& lines, const ParameterLayout& layout,
                std::vector<DividedRange> chunks, bool gathers);

  // Begins the sum of a step's gradient, of which nothing is finished.
  void begin(const at::Tensor& gradient);
  // Says that these elements are finished, and will not be written before wait(). Each is named
  // once in a step; a gap may be named or not.
  void finish(int64_t first, int64_t size);
  // Says so of all elements that are not finished, after a failure: their values do not matter.
  void finish_all();
  // Returns whether elements were finished since begin().
  bool has_finished_any() const { return has_finished_any_; }
  // Waits for the sums of all chunks. Throws what has failed in another thread.
  void wait();

 private:
  // Has the chunks summed that are finished and have none before them that is not.
  void sum_finished();

  ExchangeLines& lines_;
  std::shared_ptr<const std::vector<DividedRange>> chunks_;  // shared with the sums under way
  std::vector<int64_t> numels_;                              // of each chunk, without the gaps
  bool gathers_;
  at::Tensor gradient_;
  std::vector<int64_t> unfinished_;  // elements of each chunk
  size_t next_ = 0;                  // the chunk to be summed; the sums of all before it are begun
  bool has_finished_any_ = false;
};

}  // namespace lmtrain
