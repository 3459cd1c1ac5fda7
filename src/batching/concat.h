// With `concat` the documents are joined to one stream of tokens, which is cut into rows every
// max_length targets; consecutive rows share one token. The first token of a document is masked as
// a target, so that a document trains the same targets as in every other way of batching. Documents
// without a target (fewer than 2 tokens) are left out. It takes 8 bytes for each document.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/stop.h"
#include "batching/document_list.h"
#include "batching/rows.h"
#include "formats/token_shard.h"

namespace lmtrain {

class ConcatRows : public Rows {
 public:
  // With a `key` the documents are joined in the order of a keyed permutation, else in the order of
  // the shard. The shard must outlive the rows. Throws what `poll` throws.
  ConcatRows(const TokenShard& shard, DocumentList documents, int64_t max_length,
             std::optional<uint64_t> key, const Poll& poll = throw_if_stopped);
  int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets,
               std::vector<RowPart>& parts) const override;
  int64_t lay_out(size_t index, int64_t row, std::vector<RowPart>& parts) const override;
  bool parts_are_apart() const override { return false; }

 private:
  int64_t document_at(size_t index) const;
  // Calls visit(document, shift, input, input_end, target_end) for each document of a row. The last
  // three are positions in the stream: its inputs are there in [input, input_end), its targets in
  // [input + 1, target_end). The token at position p is at p + shift of the shard. Returns the
  // number of targets.
  template <class Visit>
  int64_t for_each_document(int64_t row, const Visit& visit) const;

  const TokenShard& shard_;
  DocumentList documents_;
  std::optional<Permutation> order_;
  std::vector<int64_t> ends_;  // the end of each document in the stream, in the order of joining
};

}  // namespace lmtrain
