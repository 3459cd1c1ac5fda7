#include "report/seed_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"

namespace lmtrain {
namespace {

void flatten(const nlohmann::json& value, const std::string& key, FlatSettings& flat) {
  if (value.is_object() && (key.empty() || !value.empty())) {
    for (const auto& [name, member] : value.items())
      flatten(member, key.empty() ? name : str(key, ".", name), flat);
    return;
  }
  flat[key] = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

FlatSettings flatten_settings(const nlohmann::json& settings) {
  FlatSettings flat;
  if (settings.is_object()) flatten(settings, "", flat);
  return flat;
}

std::vector<SettingsRow> differing_settings(const std::vector<FlatSettings>& runs) {
  std::set<std::string> keys;
  for (const FlatSettings& run : runs)
    for (const auto& [key, value] : run) keys.insert(key);
  keys.erase("name");
  keys.erase("run_dir");
  std::vector<SettingsRow> rows;
  for (const std::string& key : keys) {
    SettingsRow row = {key, {}};
    std::set<std::string> known;  // values of the runs whose settings were read
    for (const FlatSettings& run : runs) {
      const auto found = run.find(key);
      row.values.push_back(found == run.end() ? "" : found->second);
      if (!run.empty()) known.insert(row.values.back());
    }
    if (known.size() > 1) rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

bool sets_apart(const std::string& key) {
  return key != "name" && key != "run_dir" && key != "seed" && key != "threads" &&
         key != "data.cache_dir" && !key.starts_with("log.") && !key.starts_with("checkpoint.") &&
         !key.starts_with("card.");
}

std::optional<int64_t> seed_of(const RunRecord& run) {
  const auto seed = run.settings.find("seed");
  if (seed == run.settings.end() || !seed->is_number_integer()) return std::nullopt;
  return seed->get<int64_t>();
}

FlatSettings settings_that_count(const RunRecord& run) {
  FlatSettings flat = flatten_settings(run.settings);
  // The order of data follows the seed where it is not given, and some configs say so.
  if (const auto own = flat.find("data.seed"); own != flat.end() && own->second == flat["seed"])
    own->second = "null";
  std::erase_if(flat, [](const auto& entry) { return !sets_apart(entry.first); });
  return flat;
}

// Names each group by the settings that differ between groups, at most kMostNamed of them.
void name_groups(std::vector<SeedGroup>& groups, const std::vector<FlatSettings>& settings) {
  constexpr size_t kMostNamed = 3;
  const std::vector<SettingsRow> rows = differing_settings(settings);
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<std::string> parts;
    for (const SettingsRow& row : rows) {
      if (parts.size() == kMostNamed) {
        parts.push_back(str("and ", rows.size() - kMostNamed, " more"));
        break;
      }
      parts.push_back(str(row.key, " ", row.values[i].empty() ? "not set" : row.values[i]));
    }
    groups[i].name = join(parts, ", ");
  }
}

}  // namespace

std::vector<SeedGroup> seed_groups(const std::vector<RunRecord>& runs) {
  std::vector<SeedGroup> groups;
  std::vector<FlatSettings> settings;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::optional<int64_t> seed = seed_of(runs[i]);
    // The loss of a run under way, or of one that was stopped, is no final one.
    if (!seed || runs[i].state != "done" || !final_held_out_loss(runs[i])) continue;
    FlatSettings own = settings_that_count(runs[i]);
    const auto found = std::find(settings.begin(), settings.end(), own);
    const auto index = static_cast<size_t>(found - settings.begin());
    if (found == settings.end()) {
      settings.push_back(std::move(own));
      groups.emplace_back();
    }
    SeedGroup& group = groups[index];
    if (std::find(group.seeds.begin(), group.seeds.end(), *seed) != group.seeds.end()) continue;
    group.runs.push_back(i);
    group.seeds.push_back(*seed);
  }
  name_groups(groups, settings);
  return groups;
}

MeanAndError mean_and_error(const std::vector<double>& values) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(values.size());
  MeanAndError result = {kNaN, kNaN, values.size()};
  if (values.empty()) return result;
  double sum = 0;
  for (const double value : values) sum += value;
  result.mean = sum / n;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (n - 1) / n);
  return result;
}

std::vector<PairedDifference> paired_differences(const std::vector<SeedGroup>& groups,
                                                 const std::vector<RunRecord>& runs) {
  std::vector<PairedDifference> pairs;
  const auto losses = [&](const SeedGroup& group) {
    std::map<int64_t, double> by_seed;
    for (size_t i = 0; i < group.runs.size(); ++i)
      by_seed[group.seeds[i]] = final_held_out_loss(runs[group.runs[i]]).value();
    return by_seed;
  };
  for (size_t i = 1; i < groups.size(); ++i) {
    PairedDifference pair = {i, 0, {}, {}};
    const std::map<int64_t, double> base = losses(groups[0]);
    for (const auto& [seed, loss] : losses(groups[i])) {
      const auto same = base.find(seed);
      if (same == base.end()) continue;
      pair.seeds.push_back(seed);
      pair.differences.push_back(loss - same->second);
    }
    if (!pair.seeds.empty()) pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace lmtrain
