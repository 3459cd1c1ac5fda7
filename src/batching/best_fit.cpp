// Items by size, bins by the room left in them, see best_fit.h.
#include "batching/best_fit.h"

#include <algorithm>
#include <limits>
#include <map>

namespace lmtrain {
namespace {

// Items of equal size are [begins[size], begins[size + 1]) of `items`.
struct BySize {
  std::vector<uint32_t> begins;
  std::vector<uint32_t> items;
};

BySize sort_by_size(std::span<const uint32_t> sizes) {
  const uint32_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  BySize sorted{std::vector<uint32_t>(size_t{largest} + 2, 0), std::vector<uint32_t>(sizes.size())};
  for (const uint32_t size : sizes) ++sorted.begins[size + 1];
  for (size_t i = 1; i < sorted.begins.size(); ++i) sorted.begins[i] += sorted.begins[i - 1];
  std::vector<uint32_t> next = sorted.begins;
  for (size_t item = 0; item < sizes.size(); ++item) {
    sorted.items[next[sizes[item]]++] = static_cast<uint32_t>(item);
  }
  return sorted;
}

void number_by_first_item(Packing& packing) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> number(packing.num_bins, kNone);
  uint32_t next = 0;
  for (uint32_t& bin : packing.bins) {
    if (number[bin] == kNone) number[bin] = next++;
    bin = number[bin];
  }
}

}  // namespace

Packing pack_best_fit(std::span<const uint32_t> sizes, uint32_t capacity) {
  const BySize sorted = sort_by_size(sizes);
  Packing packing{std::vector<uint32_t>(sizes.size()), 0};
  std::map<uint32_t, std::vector<uint32_t>> open;  // bins by the room left, above 0
  for (auto size = static_cast<uint32_t>(sorted.begins.size() - 2); size > 0; --size) {
    for (uint32_t i = sorted.begins[size]; i < sorted.begins[size + 1];) {
      const auto fitting = open.lower_bound(size);
      uint32_t room = capacity;
      uint32_t bin = packing.num_bins;
      if (fitting == open.end()) {
        ++packing.num_bins;
      } else {
        room = fitting->first;
        bin = fitting->second.back();
        fitting->second.pop_back();
        if (fitting->second.empty()) open.erase(fitting);
      }
      // While it takes more of this size it remains the bin with the least room that does.
      for (; i < sorted.begins[size + 1] && room >= size; room -= size) {
        packing.bins[sorted.items[i++]] = bin;
      }
      if (room > 0) open[room].push_back(bin);
    }
  }
  number_by_first_item(packing);
  return packing;
}

}  // namespace lmtrain
