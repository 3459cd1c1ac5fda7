// Groups the runs that differ only in their seed, and compares such groups seed by seed.
//
// Two runs with the same seed share initial weights and order of data, so the difference of their
// losses has less noise than the losses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// ---- Settings ----

// Maps a dotted key ("optimizer.lr") to its value as JSON; an array is one value.
using FlatSettings = std::map<std::string, std::string>;
FlatSettings flatten_settings(const nlohmann::json& settings);

struct SettingsRow {
  std::string key;
  std::vector<std::string> values;  // of each run; empty: the run has no such key
};
// Returns the keys whose values differ between runs, in byte order, except `name` and `run_dir`.
// Does not compare runs with an empty map, which have no values.
std::vector<SettingsRow> differing_settings(const std::vector<FlatSettings>& runs);

struct SeedGroup {
  std::string name;            // the settings that differ from other groups: "optimizer.lr 0.003"
  std::vector<size_t> runs;    // indices of its runs
  std::vector<int64_t> seeds;  // the seed of each run, all different
};

// Returns the groups in the order of their first runs. Settings about a run's files, logs,
// checkpoints, card and threads may differ within a group. Leaves out runs that are not done, that
// have no finite held-out loss, or whose config is damaged; and the later of two runs with the same
// settings and seed.
std::vector<SeedGroup> seed_groups(const std::vector<RunRecord>& runs);

// Holds mean and standard error (standard deviation / sqrt(n), with n - 1 in the variance) of n
// values; NaN if n is 0, or below 2 for the error.
struct MeanAndError {
  double mean = 0, standard_error = 0;
  size_t count = 0;
};
MeanAndError mean_and_error(const std::vector<double>& values);

struct PairedDifference {
  size_t group = 0, base = 0;       // indices of groups: the values are `group` minus `base`
  std::vector<int64_t> seeds;       // of both groups, ascending
  std::vector<double> differences;  // of the final held-out losses by seed, nats a target
};
// Compares each later group with the first. Leaves out groups that share no seed with it.
std::vector<PairedDifference> paired_differences(const std::vector<SeedGroup>& groups,
                                                 const std::vector<RunRecord>& runs);

}  // namespace lmtrain
