// Rows of `concat`: documents joined to one stream of tokens, cut every max_length targets;
// consecutive rows share one token. The target that is the first token of the next document is
// masked, so that a document trains the same targets as in every other way of batching. Documents
// without a target (fewer than 2 tokens) are left out. 8 bytes a document.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "batching/document_list.h"
#include "batching/rows.h"
#include "formats/token_shard.h"

namespace lmtrain {

class ConcatRows : public Rows {
 public:
  // `key`: documents in the order of a keyed permutation; none: as in the shard, which must outlive
  // the rows.
  ConcatRows(const TokenShard& shard, DocumentList documents, int64_t max_length,
             std::optional<uint64_t> key);
  int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets,
               std::vector<RowPart>& parts) const override;
  int64_t lay_out(size_t index, int64_t row, std::vector<RowPart>& parts) const override;
  bool parts_are_apart() const override { return false; }

 private:
  int64_t document_at(size_t index) const;
  // Calls visit(document, shift, input, input_end, target_end) for each document of a row. The last
  // three are positions in the stream: its inputs are there in [input, input_end), its targets in
  // [input + 1, target_end). The token at position p is at p + shift of the shard. Gives the number
  // of targets.
  template <class Visit>
  int64_t for_each_document(int64_t row, const Visit& visit) const;

  const TokenShard& shard_;
  DocumentList documents_;
  std::optional<Permutation> order_;
  std::vector<int64_t> ends_;  // by index in the order of documents: where that one ends
};

}  // namespace lmtrain
