#include "prepare/content_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

constexpr size_t kLongestCharacter = 4;

// Returns whether the position is inside a character.
bool is_inside_character(std::string_view text, size_t position) {
  return position < text.size() && is_utf8_continuation(text[position]);
}

// Cuts at newlines; where two newlines lie so far apart that positions between them are beyond the
// reach of both, between characters too, with larger keys than any newline has.
std::vector<uint64_t> text_cuts(std::string_view text, uint64_t reach) {
  constexpr uint64_t kNoNewline = uint64_t{1} << 63;
  ContentCuts cuts(reach, text.size());
  const auto add_between = [&](size_t begin, size_t end) {
    if (end - begin <= 2 * reach) return;
    for (size_t at = begin + 1; at < end; ++at) {
      if (!is_inside_character(text, at))
        cuts.add(at, content_key(text.substr(0, at)) >> 1 | kNoNewline);
    }
  };
  size_t last = 0;
  for (;;) {
    const size_t newline = text.find('\n', last);
    if (newline == std::string_view::npos) break;
    add_between(last, newline + 1);
    last = newline + 1;
    cuts.add(last, content_key(text.substr(0, last)) >> 1);
  }
  add_between(last, text.size());
  return cuts.finish();
}

// Cuts text[begin, end), in which no content cut lies.
void cut_evenly(std::string_view text, size_t begin, size_t end, uint64_t block,
                std::vector<size_t>& ends) {
  while (end - begin > block + block / 2) {
    const size_t least = begin + block / 2;
    size_t cut = begin + block;
    const size_t newline = text.substr(least, cut - least).rfind('\n');
    if (newline != std::string_view::npos) {
      cut = least + newline + 1;
    } else {
      size_t before = cut;
      while (cut - before < kLongestCharacter && is_utf8_continuation(text[before])) --before;
      if (!is_utf8_continuation(text[before])) cut = before;
    }
    ends.push_back(cut);
    begin = cut;
  }
}

}  // namespace

void ContentCuts::add(uint64_t position, uint64_t key) {
  while (!least_.empty() && position - least_.front().at > reach_) least_.pop_front();
  while (!least_.empty() && least_.back().key > key) least_.pop_back();
  const bool is_least = least_.empty();
  least_.push_back({position, key});
  if (!cuts_.empty() && position - cuts_.back().at <= reach_ && key < cuts_.back().key)
    cuts_.pop_back();
  if (is_least && position >= reach_ && size_ - position >= reach_)
    cuts_.push_back({position, key});
}

std::vector<uint64_t> ContentCuts::finish() {
  std::vector<uint64_t> cuts;
  cuts.reserve(cuts_.size());
  for (const Position& cut : cuts_) cuts.push_back(cut.at);
  return cuts;
}

uint64_t content_key(std::string_view bytes) {
  constexpr size_t kWords = ContentCuts::kWindowBytes / sizeof(uint64_t);
  constexpr std::array<uint64_t, kWords> kFactors = {0x9E3779B97F4A7C15ULL, 0xBF58476D1CE4E5B9ULL,
                                                     0x94D049BB133111EBULL, 0xD6E8FEB86659FD93ULL};
  std::array<uint64_t, kWords> words{};
  const size_t size = std::min(bytes.size(), ContentCuts::kWindowBytes);
  if (size > 0) std::memcpy(words.data(), bytes.data() + (bytes.size() - size), size);
  uint64_t sum = size;
  for (size_t i = 0; i < kWords; ++i) sum += words[i] * kFactors[i];
  return mix64(sum);
}

std::vector<size_t> block_ends(std::string_view text, uint64_t block) {
  std::vector<size_t> ends;
  if (text.size() > block + block / 2) {
    size_t begin = 0;
    for (const uint64_t cut : text_cuts(text, block / 2)) {
      cut_evenly(text, begin, cut, block, ends);
      ends.push_back(cut);
      begin = cut;
    }
    cut_evenly(text, begin, text.size(), block, ends);
  }
  ends.push_back(text.size());
  return ends;
}

}  // namespace lmtrain
