#include "tokenizer/bpe_backtracker.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lmtrain {
namespace {

// Returns the first eight bytes of a text, so that numbers compare as the texts do.
uint64_t front_of(std::string_view text) {
  uint64_t front = 0;
  for (size_t i = 0; i < sizeof front; ++i)
    front = front << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
  return front;
}

}  // namespace

bool BpeBacktracker::add_texts(std::span<const std::string_view> texts) {
  const auto text_of = [&](int32_t symbol) { return texts[static_cast<size_t>(symbol)]; };
  std::vector<std::pair<uint64_t, int32_t>> order;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto symbol = static_cast<int32_t>(i);
    if (!is_made(symbol)) continue;
    token(symbol).size = static_cast<uint32_t>(texts[i].size());
    order.emplace_back(front_of(texts[i]), symbol);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : text_of(a.second) < text_of(b.second);
  });
  std::vector<ByteTrie::Entry> entries;
  entries.reserve(order.size());
  std::vector<int32_t> prefixes;  // of the text before, the shortest first
  for (const auto& [front, symbol] : order) {
    const std::string_view text = text_of(symbol);
    if (!entries.empty() && entries.back().text == text) return false;
    while (!prefixes.empty() && !text.starts_with(text_of(prefixes.back()))) prefixes.pop_back();
    if (!prefixes.empty()) token(symbol).shorter = prefixes.back();
    prefixes.push_back(symbol);
    entries.push_back({std::string(text), symbol});
  }
  trie_ = ByteTrie(std::move(entries));
  return true;
}

}  // namespace lmtrain
