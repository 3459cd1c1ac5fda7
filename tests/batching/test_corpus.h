// A corpus whose token ids name their offset: the token at offset p of the shard has id p + 1 (0 is
// left to padding). So a batch by itself shows which target of which document each position trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "formats/token_shard.h"

namespace lmtrain {

// A shard of documents with the given numbers of tokens; its file is gone at once, the mapping
// stays.
TokenShard make_shard(const std::vector<int64_t>& document_sizes);

// Document sizes with the odd ones among them: 0, 1, 2, exact powers of two with one more, far
// longer than a row.
std::vector<int64_t> random_sizes(uint64_t seed, int64_t num_documents, int64_t longest);

// Which documents are of which source, and the sources' weights.
struct Mixture {
  std::vector<SourceRun> runs;
  std::vector<DataSourceConfig> sources;
  double weight_of(int64_t document) const;
};
Mixture one_source();
// Runs of a few documents each, the sources in turn.
Mixture mixture_of(int64_t num_documents, const std::vector<double>& weights);

// How often each offset of a shard was a target.
class Coverage {
 public:
  // `apart`: whether attention is promised to stay inside a document.
  Coverage(const TokenShard& shard, Mixture mixture, bool apart);

  // Counts, and gives what is wrong with the batch by itself, else "": a position trains the token
  // after its input, of the same document; padding is 0 and kNoTarget; the counts add up; no
  // document is missing and none too many; segments
  // are in order and hold consecutive tokens of one document each.
  std::string add(const Batch& batch);

  // Whether every target of every document was trained epochs · weight times (where that is not
  // whole, one of the two numbers around it), and nothing else ever.
  bool is(double epochs) const;
  int64_t total() const { return total_; }
  int64_t count(int64_t offset) const { return count_[static_cast<size_t>(offset)]; }
  int64_t document_of(int32_t id) const { return document_of_[static_cast<size_t>(id) - 1]; }

 private:
  std::string check_position(const Batch& batch, size_t i);
  std::string check_segments(const Batch& batch) const;

  const TokenShard& shard_;
  Mixture mixture_;
  bool apart_;
  std::vector<int64_t> document_of_;  // by offset
  std::vector<int64_t> count_;
  int64_t total_ = 0;
};

}  // namespace lmtrain
