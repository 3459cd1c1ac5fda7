// Sums the gradient of a step over the processes while the backward goes on. The flat gradient is
// divided into chunks, in the order in which the backward finishes them: an untied head, the layers
// from the last to the first, the embeddings, the norms. Some threads take turns in summing them,
// each over connections of its own (Processes::aside): the first sums the first chunk as soon as
// all of its elements are finished here, the second the next one, and so on around. A chunk does
// not begin before those ahead of it. Every process does the same, so the sums of a chunk meet
// without a word more; and while one chunk is on its way over a slow link the next ones follow it.
//
// Every process must make the same calls of begin() and wait(), and finish all elements between the
// two, whatever they hold, one call at a time. Gradients must be in host memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/parameters.h"
#include "processes/processes.h"
#include "run/shared/work_line.h"

namespace lmtrain {

// A chunk is a range of the flat gradient that is summed at once.
struct GradientChunk {
  ElementRange elements;
  int64_t numel = 0;                 // without the gaps
  std::vector<ElementRange> ranges;  // by rank: the elements whose sum it needs
};

// Returns the chunks of a layout, which cover it, in the order in which the backward finishes them.
// Neighbouring layers share one of at least `least` elements. `needed` are the elements whose sum
// each rank needs. Where it is empty every rank needs all, and `ranges` divides each chunk evenly.
std::vector<GradientChunk> chunks_of(const ParameterLayout& layout,
                                     const std::vector<ElementRange>& needed, int count,
                                     int64_t least);

class OverlappedSum {
 public:
  // Chunk i is summed by `exchanges[i % exchanges.size()]`, which has a thread of its own. With
  // `gathers` all elements of a chunk are copied to all processes after its sum.
  OverlappedSum(const std::vector<RangeExchange*>& exchanges, std::vector<GradientChunk> chunks,
                bool gathers);

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

  struct Lane {
    RangeExchange* exchange = nullptr;
    std::unique_ptr<WorkLine> line;
    uint64_t last = 0;  // the number of the last sum that is begun
  };

  std::vector<Lane> lanes_;
  std::shared_ptr<const std::vector<GradientChunk>> chunks_;  // shared with the sums under way
  bool gathers_;
  at::Tensor gradient_;
  std::vector<int64_t> unfinished_;  // elements of each chunk
  size_t next_ = 0;                  // the chunk to be summed; the sums of all before it are begun
  bool has_finished_any_ = false;
};

}  // namespace lmtrain
