#include "checkpoint/run_identity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lmtrain {
namespace {

RunIdentity branch() {
  return {.id = new_run_id(),
          .branch_of = BranchPoint{new_run_id(), "/runs/a", 25},
          .init_from = "the digest"};
}

nlohmann::json config_of(const RunIdentity& identity) {
  return {{"name", "a"}, {kIdentityKey, nlohmann::json(identity_json(identity))}};
}

TEST(RunIdentity, NoTwoRunsHaveOneId) {
  const std::string id = new_run_id();
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_NE(new_run_id(), id);
}

TEST(RunIdentity, IsReadAsItWasWritten) {
  for (const RunIdentity& identity : {RunIdentity(), RunIdentity{.id = new_run_id()}, branch()})
    EXPECT_EQ(identity_in(config_of(identity)), identity);
}

// Half an identity would let a run go on from checkpoints of another.
TEST(RunIdentity, WhatIsNoneIsEmpty) {
  const nlohmann::json whole = config_of(branch());
  EXPECT_EQ(identity_in(nlohmann::json::object()), RunIdentity());
  for (const auto& [key, value] : whole.at(kIdentityKey).items()) {
    nlohmann::json missing = whole;
    missing.at(kIdentityKey).erase(key);
    EXPECT_EQ(identity_in(missing), RunIdentity()) << key;
    nlohmann::json wrong = whole;
    wrong.at(kIdentityKey)[key] = 5;
    EXPECT_EQ(identity_in(wrong), RunIdentity()) << key;
  }
}

}  // namespace
}  // namespace lmtrain
