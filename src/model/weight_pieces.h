// Cuts the weights of a model into pieces: the embeddings, the matrices of each layer, an untied
// head. A process that does not have all weights needs one piece at a time. Norms and biases, which
// are few numbers, belong to no piece and are always there.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.h"

namespace lmtrain {

// A WeightPiece is the range [first, first + size) of the flat layout.
struct WeightPiece {
  int64_t first = 0, size = 0;
};

// Returns the pieces: 0 is the embedding, 1 + l the layer l, and the last an untied head. They
// cover the matrices.
std::vector<WeightPiece> weight_pieces(const ParameterLayout& layout);

// Returns ranges that cover the layout, in the order in which a backward finishes their gradients:
// an untied head, the layers from the last to the first, the embeddings, norms and biases.
// Neighbouring layers share a range until it has `least_layers` of them and a megabyte of fp32,
// which is worth the messages of an exchange of its own.
std::vector<WeightPiece> backward_chunks(const ParameterLayout& layout, int64_t least_layers);

// WeightPieces brings pieces of the working weights into the flat buffer that the model reads.
// Several processes make the same calls in the same order. A piece is given by its index in
// weight_pieces().
class WeightPieces {
 public:
  WeightPieces(const WeightPieces&) = delete;
  WeightPieces& operator=(const WeightPieces&) = delete;
  virtual ~WeightPieces() = default;

  // Begins to bring a piece.
  virtual void start(size_t piece) = 0;
  // Waits for the piece that was started first among the pieces that were not awaited.
  virtual void await() = 0;
  // Lets a piece go. Its values are not read until it is started again.
  virtual void release(size_t piece) = 0;

 protected:
  WeightPieces() = default;
};

}  // namespace lmtrain
