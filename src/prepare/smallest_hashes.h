// A random sample of documents that depends on their text alone: those with the smallest hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace lmtrain {

inline constexpr size_t kMostHashes = size_t{1} << 16;

// Keeps the kMostHashes smallest hashes that were given in `values`. Returns the value of `hash`,
// and whether it is new; null where the hash is not kept.
template <class Value>
std::pair<Value*, bool> keep_smallest(std::map<uint64_t, Value>& values, uint64_t hash) {
  if (values.size() == kMostHashes && hash > values.rbegin()->first) return {nullptr, false};
  const auto [found, is_new] = values.try_emplace(hash);
  Value* const value = &found->second;
  if (values.size() > kMostHashes) values.erase(std::prev(values.end()));
  return {value, is_new};
}

}  // namespace lmtrain
