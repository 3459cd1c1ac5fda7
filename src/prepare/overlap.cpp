#include "prepare/overlap.h"

#include <algorithm>

#include "base/error.h"

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

void CommonDocuments::add(int32_t source, uint64_t hash, uint64_t size) {
  if (size == 0) return;
  const auto [known, is_new] = keep_smallest(source_of_document_, hash);
  if (known == nullptr) return;
  while (lower_.size() <= static_cast<size_t>(source))
    lower_.push_back(static_cast<int32_t>(lower_.size()));
  if (is_new) {
    *known = source;
    return;
  }
  const int32_t a = lowest(source), b = lowest(*known);
  lower_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
}

int32_t CommonDocuments::lowest(int32_t source) const {
  while (lower_[static_cast<size_t>(source)] != source)
    source = lower_[static_cast<size_t>(source)];
  return source;
}

std::vector<int32_t> CommonDocuments::groups(size_t num_sources) const {
  std::vector<int32_t> groups;
  for (size_t source = 0; source < num_sources; ++source) {
    const auto number = static_cast<int32_t>(source);
    groups.push_back(source < lower_.size() ? lowest(number) : number);
  }
  return groups;
}

void CommonDocuments::load(std::map<uint64_t, int32_t> sources_of_documents,
                           std::vector<int32_t> lower) {
  const auto is_source = [&](int32_t source, size_t end) {
    return source >= 0 && static_cast<size_t>(source) < end;
  };
  bool fits = true;
  for (size_t source = 0; source < lower.size(); ++source)
    fits = fits && is_source(lower[source], source + 1);
  for (const auto& [hash, source] : sources_of_documents)
    fits = fits && is_source(source, lower.size());
  if (!fits) throw Error(ErrorKind::kData, "the documents that entries share name no entry");
  source_of_document_ = std::move(sources_of_documents);
  lower_ = std::move(lower);
}

}  // namespace lmtrain
