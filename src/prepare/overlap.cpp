#include "prepare/overlap.h"

#include "prepare/smallest_hashes.h"

namespace lmtrain {

void OverlapFinder::add_eval(uint64_t hash, uint64_t bytes) {
  if (bytes == 0) return;
  Entry* const entry = keep_smallest(entries_, hash).first;
  if (entry == nullptr) return;
  ++entry->documents;
  entry->bytes += static_cast<int64_t>(bytes);
}

void OverlapFinder::add_train(uint64_t hash) {
  if (entries_.empty()) return;
  const auto entry = entries_.find(hash);
  if (entry != entries_.end()) entry->second.is_found = true;
}

Overlap OverlapFinder::result() const {
  Overlap overlap;
  for (const auto& [hash, entry] : entries_) {
    overlap.of_documents += entry.documents;
    overlap.of_bytes += entry.bytes;
    if (!entry.is_found) continue;
    overlap.documents += entry.documents;
    overlap.bytes += entry.bytes;
  }
  return overlap;
}

}  // namespace lmtrain
