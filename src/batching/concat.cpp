// One stream of tokens in rows, see concat.h.
#include "batching/concat.h"

#include <algorithm>
#include <utility>

namespace lmtrain {

ConcatRows::ConcatRows(const TokenShard& shard, DocumentList documents, int64_t max_length,
                       std::optional<uint64_t> key, const Poll& poll)
    : shard_(shard), documents_(std::move(documents)) {
  const auto num_documents = static_cast<size_t>(documents_.size());
  if (key) order_.emplace(num_documents, *key);
  ends_.reserve(num_documents);
  int64_t end = 0;
  int64_t num_targets = 0;
  for (size_t index = 0; index < num_documents; ++index) {
    poll_at(index, poll);
    const int64_t size = shard.document_size(document_at(index));
    if (size >= 2) {
      end += size;
      num_targets += size - 1;
    }
    ends_.push_back(end);
  }
  if (num_targets == 0) return;
  const int64_t num_inputs = end - 1;
  int64_t num_pieces = 0;
  int64_t begin = 0;
  for (const int64_t document_end : ends_) {
    // A document that is left out has no inputs, nor has one whose only input would be the last.
    const int64_t last = std::min(document_end, num_inputs) - 1;
    if (last >= begin) num_pieces += last / max_length - begin / max_length + 1;
    begin = document_end;
  }
  lengths_.push_back(
      {max_length, (num_inputs + max_length - 1) / max_length, num_pieces, num_targets});
}

int64_t ConcatRows::document_at(size_t index) const {
  return documents_[static_cast<int64_t>(order_ ? (*order_)(index) : index)];
}

template <class Visit>
int64_t ConcatRows::for_each_document(int64_t row, const Visit& visit) const {
  // Positions count from the start of the stream; the target of the input at p is the token at p
  // + 1.
  const int64_t length = lengths_.front().length;
  const int64_t begin = row * length;
  const int64_t end = std::min(begin + length, ends_.back() - 1);
  auto index =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  int64_t num_targets = 0;
  for (int64_t first = index == 0 ? 0 : ends_[index - 1]; first < end; first = ends_[index++]) {
    const int64_t last = ends_[index];
    if (last == first) continue;  // a document that is left out
    const int64_t document = document_at(index);
    const int64_t input = std::max(first, begin);
    // Its first token is nobody's target.
    const int64_t target_end = std::min(last, end + 1);
    visit(document, shard_.document_begin(document) - first, input, std::min(last, end),
          target_end);
    num_targets += std::max<int64_t>(0, target_end - input - 1);
  }
  return num_targets;
}

int64_t ConcatRows::fill(size_t /*index*/, int64_t row, std::span<int32_t> inputs,
                         std::span<int32_t> targets, std::vector<RowPart>& parts) const {
  const int64_t begin = row * static_cast<int64_t>(inputs.size());
  const auto copy = [&](int64_t from, int64_t to, int64_t shift, std::span<int32_t> out) {
    shard_.read_tokens(from + shift,
                       out.subspan(0, static_cast<size_t>(std::max<int64_t>(0, to - from))));
  };
  return for_each_document(row, [&](int64_t document, int64_t shift, int64_t input,
                                    int64_t input_end, int64_t target_end) {
    const auto at = static_cast<size_t>(input - begin);
    parts.push_back({input - begin, document});
    copy(input, input_end, shift, inputs.subspan(at));
    copy(input + 1, target_end, shift, targets.subspan(at));
  });
}

int64_t ConcatRows::lay_out(size_t /*index*/, int64_t row, std::vector<RowPart>& parts) const {
  const int64_t begin = row * lengths_.front().length;
  return for_each_document(row, [&](int64_t document, int64_t /*shift*/, int64_t input,
                                    int64_t /*input_end*/, int64_t /*target_end*/) {
    parts.push_back({input - begin, document});
  });
}

}  // namespace lmtrain
