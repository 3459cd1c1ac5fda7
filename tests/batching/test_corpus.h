// A corpus whose token ids name their place: the token at place p of the shard has id p + 1 (0 is
// left to padding). So a batch by itself shows which target of which document each position trains.
#pragma once

#include <cstdint>
#include <vector>

#include "batching/batch.h"
#include "formats/token_shard.h"

namespace lmtrain {

// A shard of documents with the given numbers of tokens; its file is gone at once, the mapping
// stays.
TokenShard make_shard(const std::vector<int64_t>& document_sizes);

// Document sizes with the odd ones among them: 0, 1, 2, exact powers of two with one more, far
// longer than a row.
std::vector<int64_t> random_sizes(uint64_t seed, int64_t num_documents, int64_t longest);

// How often each place of a shard was a target. Also checks what must hold of any batch by itself:
// a position trains the token after its input, of the same document; padding is 0 and kNoTarget;
// the counts add up.
class Coverage {
 public:
  explicit Coverage(const TokenShard& shard);
  void add(const Batch& batch);

  // Whether every target of every document was trained from `least` to `most` times, and nothing
  // else ever.
  bool all_between(int64_t least, int64_t most) const;
  int64_t total() const { return total_; }

 private:
  const TokenShard& shard_;
  std::vector<int64_t> document_of_;  // by place
  std::vector<int64_t> count_;
  int64_t total_ = 0;
};

}  // namespace lmtrain
