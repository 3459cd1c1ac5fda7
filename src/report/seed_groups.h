// Finds the runs that differ in nothing but their seed, and compares such groups seed by seed.
//
// Two runs with the same seed share initial weights and order of data, so the difference of their
// losses has less noise than the losses: the mean of these differences is given with its standard
// error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// Compares the settings of runs, key by key.

// Maps a dotted key ("optimizer.lr") to its value as JSON; an array is one value.
using FlatSettings = std::map<std::string, std::string>;
FlatSettings flatten_settings(const nlohmann::json& settings);

struct SettingsRow {
  std::string key;
  std::vector<std::string> values;  // of each run; empty: the run has no such key
};
// Returns the keys whose values are not the same in all runs, in byte order. `name` and `run_dir`
// are left out, as are the settings of runs whose map is empty: these have no values.
std::vector<SettingsRow> differing_settings(const std::vector<FlatSettings>& runs);

struct SeedGroup {
  std::string name;            // the settings that set it apart: "optimizer.lr 0.003"
  std::vector<size_t> runs;    // by index, those with a final held-out loss
  std::vector<int64_t> seeds;  // of each, all different
};

// Returns the groups in the order of their first runs. Settings that say where a run's files lie,
// what it logs and saves, and how many threads it has, do not set runs apart. Runs without a finite
// held-out loss, or without a readable config, are in no group; of two runs with the same settings
// and seed the first is.
std::vector<SeedGroup> seed_groups(const std::vector<RunRecord>& runs);

// Holds mean and standard error (standard deviation / sqrt(n), with n - 1 in the variance) of n
// values; NaN where n is too small.
struct MeanAndError {
  double mean = 0, standard_error = 0;
  size_t count = 0;
};
MeanAndError mean_and_error(const std::vector<double>& values);

struct PairedDifference {
  size_t group = 0, base = 0;       // indices of groups: the values are `group` minus `base`
  std::vector<int64_t> seeds;       // that both have, ascending
  std::vector<double> differences;  // of the final held-out losses, nats a token, in that order
};
// Compares each group after the first with the first. Groups that share no seed with it are left
// out.
std::vector<PairedDifference> paired_differences(const std::vector<SeedGroup>& groups,
                                                 const std::vector<RunRecord>& runs);

}  // namespace lmtrain
