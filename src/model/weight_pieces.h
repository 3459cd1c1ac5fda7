// Cuts the matrices of a model into pieces: the embedding, the matrices of each layer, an untied
// head. With divided weights a process needs one piece at a time. Norms and biases, which are
// small, belong to no piece and are always there.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.h"

namespace lmtrain {

// A WeightPiece is the range [first, first + size) of the flat layout.
struct WeightPiece {
  int64_t first = 0, size = 0;
};

// Returns the pieces: 0 is the embedding, 1 + l is layer l, and the last an untied head. They cover
// [0, decayed_size) of the layout.
std::vector<WeightPiece> weight_pieces(const ParameterLayout& layout);

// Returns chunks that cover the layout, in the order in which a backward finishes their gradients:
// an untied head, the layers from the last to the first, the embedding, norms and biases. A chunk
// of layers has at least `least_layers` layers and 1 MiB of fp32, so that its exchange is worth its
// messages; the first layers may have less.
std::vector<WeightPiece> backward_chunks(const ParameterLayout& layout, int64_t least_layers);

// WeightPieces gathers pieces of the working weights into the flat buffer that the model reads. All
// processes make the same calls in the same order, and each call may throw the errors of Processes.
// `piece` is an index into weight_pieces().
class WeightPieces {
 public:
  WeightPieces(const WeightPieces&) = delete;
  WeightPieces& operator=(const WeightPieces&) = delete;
  virtual ~WeightPieces() = default;

  // Begins to gather a piece.
  virtual void start(size_t piece) = 0;
  // Waits for the piece that was started first and not awaited yet.
  virtual void await() = 0;
  // Releases a piece. The model must not read it until it is started again.
  virtual void release(size_t piece) = 0;

 protected:
  WeightPieces() = default;
};

}  // namespace lmtrain
