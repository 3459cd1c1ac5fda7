// Which run a folder holds, and so which checkpoints belong there.
//
// A run has an id: 128 random bits, drawn when it begins. Its config.json holds the id under the
// key "identity", and state.json of each of its checkpoints under the key "run". A checkpoint with
// another id is foreign, and a run never goes on from it. The id decides no bit of a result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace lmtrain {

inline constexpr const char* kIdentityKey = "identity";

// The checkpoint of another run that a branch begins at.
struct BranchPoint {
  std::string run;                // the other run's id; empty where it has none
  std::filesystem::path run_dir;  // its folder, when the branch began
  int64_t step = 0;
  bool operator==(const BranchPoint&) const = default;
};

struct RunIdentity {
  std::string id{};  // 32 hexadecimal digits; empty: an earlier lmtrain began the run
  std::optional<BranchPoint> branch_of{};
  std::string init_from{};  // digest of the weights that the run was given; empty: none, or unknown
  bool operator==(const RunIdentity&) const = default;
};

// An id that no other run has.
std::string new_run_id();

nlohmann::ordered_json identity_json(const RunIdentity& identity);
// The identity in a run's config.json; an empty one where the key is missing or is none.
RunIdentity identity_in(const nlohmann::json& config);

}  // namespace lmtrain
