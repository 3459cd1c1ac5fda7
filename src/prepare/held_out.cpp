#include "prepare/held_out.h"

#include <cmath>
#include <ios>
#include <iterator>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "prepare/content_blocks.h"

namespace lmtrain {
namespace {

// Whole documents are held out only of a source that can expect this many below the fraction.
constexpr double kEnoughDocuments = 32;
// To reach the floor more than the fraction is held out, up to this share.
constexpr double kMostForFloor = 0.1;
// The number of blocks to hold out of a source, as far as the limits of a block's size allow.
constexpr uint64_t kBlocks = 16;
// A source of which less than this many smallest blocks would be held out is small. Small sources
// count as one.
constexpr uint64_t kFewBlocks = 16;

HoldOutRule rule_for(const SourceShape& shape, double fraction, const HoldOutScale& scale) {
  const double share = fraction * static_cast<double>(shape.size);
  const bool are_enough = fraction * static_cast<double>(shape.documents) >= kEnoughDocuments;
  const bool none_dominates = static_cast<double>(shape.largest) <= share;
  const bool are_both =
      is_below(shape.smallest_hash, fraction) && !is_below(shape.largest_hash, fraction);
  if (are_enough && none_dominates && are_both) return {0, fraction, {}};
  const uint64_t block =
      std::clamp(static_cast<uint64_t>(share) / kBlocks, scale.smallest_block, scale.largest_block);
  return {block, 0, {}};
}

}  // namespace

bool is_below(uint64_t hash, double fraction) {
  return std::ldexp(static_cast<double>(hash), -64) < fraction;
}

void SourceShape::add(uint64_t hash, uint64_t document_size) {
  *this += {1, document_size, document_size, hash, hash};
}

SourceShape& SourceShape::operator+=(const SourceShape& other) {
  documents += other.documents;
  size += other.size;
  largest = std::max(largest, other.largest);
  smallest_hash = std::min(smallest_hash, other.smallest_hash);
  largest_hash = std::max(largest_hash, other.largest_hash);
  return *this;
}

void SourceShapes::add(int32_t source, uint64_t hash, uint64_t size) {
  const auto index = static_cast<size_t>(source);
  if (index >= shapes_.size()) shapes_.resize(index + 1);
  if (source != last_source_) {
    uint64_t documents = 0;
    for (const SourceShape& shape : shapes_) documents += static_cast<uint64_t>(shape.documents);
    order_ = Hasher(order_).add(documents).add(index).digest();
    last_source_ = source;
  }
  shapes_[index].add(hash, size);
}

void SourceShapes::load(std::vector<SourceShape> shapes, const Hash128& order,
                        int32_t last_source) {
  shapes_ = std::move(shapes);
  order_ = order;
  last_source_ = last_source;
}

BlockChoice::BlockChoice(uint64_t target, uint64_t block)
    : target_(target), heaviest_(std::max(target, block + block / 2)) {}

void BlockChoice::add(uint64_t hash, uint64_t size) {
  if (size == 0 || (dropped_ && hash >= *dropped_) || heavy_.count(hash) > 0) return;
  uint64_t& sum = blocks_[hash];
  if (!is_heavy(sum)) size_ -= sum;
  sum += size;
  if (!is_heavy(sum)) size_ += sum;
  trim();
}

// Drops the largest hashes that are not needed.
void BlockChoice::trim() {
  while (blocks_.size() > kMostKept) {
    const auto last = std::prev(blocks_.end());
    const uint64_t counted = is_heavy(last->second) ? 0 : last->second;
    if (size_ - counted < target_) return;
    size_ -= counted;
    dropped_ = last->first;
    blocks_.erase(last);
  }
}

bool BlockChoice::end_pass() {
  if (!dropped_ || size_ >= target_) return true;
  for (const auto& [hash, size] : blocks_)
    if (is_heavy(size)) heavy_.emplace(hash, size);
  blocks_.clear();
  size_ = 0;
  dropped_.reset();
  return false;
}

std::vector<uint64_t> BlockChoice::chosen() const {
  std::map<uint64_t, uint64_t> heavy = heavy_;
  std::vector<uint64_t> chosen;
  uint64_t sum = 0;
  for (const auto& [hash, size] : blocks_) {
    if (is_heavy(size)) {
      heavy.emplace(hash, size);
    } else if (sum < target_) {
      chosen.push_back(hash);
      sum += size;
    }
  }
  if (chosen.empty() && heavy.size() > 1) {
    const auto lightest =
        std::min_element(heavy.begin(), heavy.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return {lightest->first};
  }
  if (!dropped_ && heavy.empty() && !chosen.empty() && chosen.size() == blocks_.size())
    chosen.pop_back();
  return chosen;
}

HoldOut::HoldOut(double fraction, const std::vector<SourceShape>& sources,
                 const std::vector<int32_t>& groups, const HoldOutScale& scale) {
  if (fraction <= 0) return;
  SourceShape all;
  for (const SourceShape& source : sources) all += source;
  const double size = std::max(1.0, static_cast<double>(all.size));
  share_ = std::max(fraction, std::min(kMostForFloor, static_cast<double>(scale.floor) / size));
  std::vector<SourceShape> together(sources.size());  // shape of each group, by its lowest source
  std::vector<std::vector<int32_t>> members(sources.size());
  for (size_t source = 0; source < sources.size(); ++source) {
    const auto group = static_cast<size_t>(groups.at(source));
    together.at(group) += sources[source];
    members.at(group).push_back(static_cast<int32_t>(source));
  }
  std::vector<SourceShape> shapes;
  std::optional<size_t> small;  // the rule of all small sources
  for (size_t source = 0; source < sources.size(); ++source) {
    if (sources[source].documents == 0) {
      rule_of_source_.push_back(0);
      continue;
    }
    const auto group = static_cast<size_t>(groups[source]);
    if (group < source) {
      rule_of_source_.push_back(rule_of_source_[group]);
      continue;
    }
    const SourceShape& shape = together[source];
    const bool is_small = share_ * static_cast<double>(shape.size) <
                          static_cast<double>(kFewBlocks * scale.smallest_block);
    if (is_small && small) {
      rule_of_source_.push_back(*small);
      shapes[*small] += shape;
      continue;
    }
    rule_of_source_.push_back(shapes.size());
    if (is_small) small = shapes.size();
    shapes.push_back(shape);
  }
  for (const std::vector<int32_t>& group : members) {
    const bool differs = std::any_of(group.begin(), group.end(), [&](int32_t source) {
      return rule_for(sources[static_cast<size_t>(source)], share_, scale).block > 0;
    });
    if (group.size() > 1 && differs) joined_.push_back(group);
  }
  for (const SourceShape& shape : shapes) {
    rules_.push_back(rule_for(shape, share_, scale));
    targets_.push_back(
        std::max<uint64_t>(1, static_cast<uint64_t>(share_ * static_cast<double>(shape.size))));
  }
}

const HoldOutRule& HoldOut::rule_of(int32_t source) const {
  static const HoldOutRule nothing;
  // A source that was empty when the rules were made has none.
  if (static_cast<size_t>(source) >= rule_of_source_.size()) return nothing;
  return rules_[rule_of_source_[static_cast<size_t>(source)]];
}

bool HoldOut::holds_out(int32_t source, uint64_t hash) const {
  const HoldOutRule& rule = rule_of(source);
  if (rule.block == 0) return is_below(hash, rule.fraction);
  return std::binary_search(rule.chosen.begin(), rule.chosen.end(), hash);
}

bool HoldOut::holds_out_any() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const HoldOutRule& rule) {
    return rule.fraction > 0 || !rule.chosen.empty();
  });
}

void HoldOut::load(std::vector<size_t> rule_of_source, std::vector<HoldOutRule> rules) {
  rule_of_source_ = std::move(rule_of_source);
  rules_ = std::move(rules);
}

void HoldOut::add_to(Hasher& hasher, double fraction, const Hash128& sources) const {
  const HoldOutRule ordinary{0, fraction, {}};
  const auto is = [&](const HoldOutRule& other) {
    return [&other](const HoldOutRule& rule) { return rule == other; };
  };
  if (std::all_of(rules_.begin(), rules_.end(), is(ordinary))) return;
  const auto add_rule = [&](const HoldOutRule& rule) {
    hasher.add(rule.block).add(str(std::hexfloat, rule.fraction)).add(rule.chosen.size());
    for (const uint64_t hash : rule.chosen) hasher.add(hash);
  };
  if (std::all_of(rules_.begin(), rules_.end(), is(rules_.front()))) {
    add_rule(rules_.front());
    return;
  }
  hasher.add(sources).add(rule_of_source_.size());
  for (const size_t rule : rule_of_source_) add_rule(rules_[rule]);
}

void note_joined_sources(const HoldOut& held_out) {
  for (const std::vector<int32_t>& group : held_out.joined()) {
    std::vector<std::string> entries;
    entries.reserve(group.size());
    for (const int32_t source : group) entries.push_back(str("/data/train/", source));
    log_note(str("held-out text: ", join(entries, ", "),
                 " have documents in common, so text is held out of them as of one entry"));
  }
}

std::vector<TextPart> cut_document(const HoldOut& held_out, int32_t source, std::string_view text,
                                   const Hash128& hash) {
  const uint64_t block = held_out.rule_of(source).block;
  if (block == 0) return {{text, held_out.holds_out(source, text_hash(hash))}};
  std::vector<TextPart> parts;
  size_t begin = 0;       // of the block
  size_t part_begin = 0;  // of the last of `parts`
  for (const size_t end : block_ends(text, block)) {
    const std::string_view content = text.substr(begin, end - begin);
    const Hash128 content_hash = content.size() == text.size() ? hash : hash128(content);
    const bool is_out = held_out.holds_out(source, text_hash(content_hash));
    if (parts.empty() || parts.back().held_out != is_out) {
      parts.push_back({{}, is_out});
      part_begin = begin;
    }
    parts.back().text = text.substr(part_begin, end - part_begin);
    begin = end;
  }
  return parts;
}

}  // namespace lmtrain
