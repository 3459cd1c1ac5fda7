#include "prepare/eval_sets.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/examine.h"
#include "base/text.h"
#include "config/settings.h"
#include "text/glob.h"

namespace lmtrain {
namespace {

bool has_named_sets(const DataConfig& data) { return data.eval && !data.eval->front().set.empty(); }

// The names in the order of the config, and the index in it of the set of each source.
struct NamedSets {
  std::vector<std::string> names;
  std::vector<int32_t> of_source;
};

NamedSets named_sets(const std::vector<DataSourceConfig>& sources) {
  NamedSets sets;
  for (const DataSourceConfig& source : sources) {
    const auto found = std::find(sets.names.begin(), sets.names.end(), source.set);
    sets.of_source.push_back(static_cast<int32_t>(found - sets.names.begin()));
    if (found == sets.names.end()) sets.names.push_back(source.set);
  }
  return sets;
}

}  // namespace

bool has_eval_sets(const DataConfig& data) {
  if (data.eval) return has_named_sets(data);
  return data.train.size() > 1 && data.eval_fraction > 0;
}

EvalSets eval_sets_of(const DataConfig& data, const PreparedData& prepared) {
  if (!has_eval_sets(data)) return {};
  if (!data.eval) return {source_names(data.train), prepared.eval_sources, false};
  const NamedSets named = named_sets(*data.eval);
  EvalSets sets{named.names, {}, true};
  sets.of_document.reserve(prepared.eval_sources.size());
  for (const int32_t source : prepared.eval_sources)
    sets.of_document.push_back(named.of_source.at(static_cast<size_t>(source)));
  return sets;
}

void require_full_sets(const DataConfig& data, const PreparedData& prepared) {
  if (!has_named_sets(data)) return;
  const EvalSets sets = eval_sets_of(data, prepared);
  for (size_t i = 0; i < sets.names.size(); ++i) {
    const auto set = static_cast<int32_t>(i);
    if (std::find(sets.of_document.begin(), sets.of_document.end(), set) != sets.of_document.end())
      continue;
    throw Error(ErrorKind::kData,
                str("/data/eval/", sets.names[i], ": the files hold no document"));
  }
}

int64_t document_targets(const TokenShard& shard, int64_t document) {
  return std::max<int64_t>(0, shard.document_end(document) - 1 - shard.document_begin(document));
}

std::vector<int64_t> divide_budget(int64_t budget, const std::vector<int64_t>& sizes) {
  constexpr int64_t kPartOfEqual = 4;
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (budget <= 0 || budget >= all) return sizes;
  const int64_t floor =
      std::max<int64_t>(1, budget / (kPartOfEqual * static_cast<int64_t>(sizes.size())));
  std::vector<int64_t> parts(sizes.size(), 0);
  auto left = static_cast<double>(budget);    // of the budget, for sets that are in proportion
  auto left_size = static_cast<double>(all);  // of these sets
  const auto in_proportion = [&](size_t i) {
    return left * static_cast<double>(sizes[i]) / left_size;
  };
  // A small set gets its share from the others, so that another one may fall below the least.
  for (bool is_settled = false; !is_settled;) {
    is_settled = true;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t least = std::min(sizes[i], floor);
      if (parts[i] > 0 || least == 0 || in_proportion(i) >= static_cast<double>(least)) continue;
      parts[i] = least;
      left -= static_cast<double>(least);
      left_size -= static_cast<double>(sizes[i]);
      is_settled = false;
    }
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (parts[i] == 0 && sizes[i] > 0)
      parts[i] = std::min(sizes[i], static_cast<int64_t>(std::ceil(in_proportion(i))));
  }
  return parts;
}

std::vector<int64_t> choose_documents(const TokenShard& shard, int64_t budget,
                                      const EvalSets& sets) {
  const bool shares = sets.share_budget && budget > 0;
  const auto set_of = [&](int64_t document) {
    return shares ? static_cast<size_t>(sets.of_document.at(static_cast<size_t>(document))) : 0;
  };
  std::vector<int64_t> left = {budget > 0 ? budget : INT64_MAX};
  if (shares) {
    std::vector<int64_t> sizes(sets.names.size(), 0);
    for (int64_t document = 0; document < shard.num_documents(); ++document)
      sizes[set_of(document)] += document_targets(shard, document);
    left = divide_budget(budget, sizes);
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i] == sizes[i]) left[i] = INT64_MAX;  // documents without a target too
  }
  std::vector<int64_t> documents;
  for (int64_t document = 0; document < shard.num_documents(); ++document) {
    int64_t& targets = left[set_of(document)];
    if (targets <= 0) continue;
    targets -= document_targets(shard, document);
    documents.push_back(document);
  }
  return documents;
}

namespace {

namespace fs = std::filesystem;

// The characters that a name may have; every run of others becomes one "_". Wildcards are left out,
// and so are ".", "_" and "-" at both ends: "*.py" is "py".
std::string readable(const std::string& part) {
  std::string name;
  for (const char c : part) {
    if (std::string_view("*?[]!").find(c) != std::string_view::npos) continue;
    if (is_set_character(c)) {
      name += c;
    } else if (!name.ends_with('_')) {
      name += '_';
    }
  }
  const auto is_edge = [](char c) { return c == '.' || c == '_' || c == '-'; };
  while (!name.empty() && is_edge(name.back())) name.pop_back();
  while (!name.empty() && is_edge(name.front())) name.erase(0, 1);
  return name;
}

// A path as the parts that names are made of.
struct NameParts {
  std::vector<std::string> parts;
  size_t last_plain = 0;  // index of the last part without a wildcard

  // Returns the name of this level: 0 is the shortest. Beyond the last level it stays the same.
  std::string name(size_t level) const {
    if (parts.empty()) return "source";
    const size_t before = level < 2 ? 0 : level - 1;
    const size_t first = last_plain - std::min(before, last_plain);
    const size_t end = level == 0 ? last_plain + 1 : parts.size();
    return join({parts.begin() + static_cast<std::ptrdiff_t>(first),
                 parts.begin() + static_cast<std::ptrdiff_t>(end)},
                ".");
  }
  size_t levels() const { return last_plain + 2; }
};

NameParts parts_of(const std::string& path) {
  NameParts result;
  for (const fs::path& part : absolute_path(path)) {
    const std::string name = readable(part.string());
    if (name.empty()) continue;
    if (!has_wildcard(part.string())) result.last_plain = result.parts.size();
    result.parts.push_back(name);
  }
  return result;
}

}  // namespace

std::vector<std::string> source_names(const std::vector<DataSourceConfig>& sources) {
  std::vector<NameParts> parts;
  size_t levels = 0;
  for (const DataSourceConfig& source : sources) {
    parts.push_back(parts_of(source.path));
    levels = std::max(levels, parts.back().levels());
  }
  std::vector<std::string> names(sources.size());
  std::set<std::string> taken;
  for (size_t level = 0; level <= levels; ++level) {
    std::map<std::string, std::vector<size_t>> same;  // entries that are still without a name
    for (size_t i = 0; i < sources.size(); ++i)
      if (names[i].empty()) same[parts[i].name(level)].push_back(i);
    for (const auto& [name, entries] : same) {
      if (entries.size() > 1 || !is_set_name(name) || !taken.insert(name).second) continue;
      names[entries.front()] = name;
    }
  }
  // Paths that differ in wildcards or other characters alone.
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string name = parts[i].name(levels);
    for (int number = 1; names[i].empty(); ++number) {
      const std::string numbered = str(name, "-", number);
      if (taken.insert(numbered).second) names[i] = numbered;
    }
  }
  return names;
}

}  // namespace lmtrain
