// The identity of a run says which checkpoints belong in its folder.
//
// A run has an id: 128 random bits, drawn when it begins (base/random.h). Its config.json holds
// the id at /identity/run, and state.json of each of its checkpoints at /run. A run never goes on
// from a checkpoint with another id. No result depends on the id.
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
  std::filesystem::path run_dir;  // the other run's folder when the branch began
  int64_t step = 0;
  bool operator==(const BranchPoint&) const = default;
};

struct RunIdentity {
  std::string id{};  // 32 hexadecimal digits
  std::optional<BranchPoint> branch_of{};
  // The digest is empty when the run was given no weights.
  std::string init_from{};  // digest of the weights that the run was given
  bool operator==(const RunIdentity&) const = default;
};

// Returns the value of the key "identity", for a run's config.json.
nlohmann::ordered_json identity_json(const RunIdentity& identity);
// Returns the identity in a run's config.json; an empty one when the key is missing or its value is
// no identity. Never throws.
RunIdentity identity_in(const nlohmann::json& config);

}  // namespace lmtrain
