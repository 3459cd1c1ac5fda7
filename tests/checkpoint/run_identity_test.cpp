#include "checkpoint/run_identity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"

namespace lmtrain {
namespace {

RunIdentity branch() {
  return {.id = random_id(),
          .branch_of = BranchPoint{random_id(), "/runs/a", 25},
          .init_from = "the digest"};
}

nlohmann::json config_of(const RunIdentity& identity) {
  return {{"name", "a"}, {kIdentityKey, nlohmann::json(identity_json(identity))}};
}

TEST(RunIdentity, NoTwoRunsHaveOneId) {
  const std::string id = random_id();
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_NE(random_id(), id);
}

TEST(RunIdentity, IsReadAsItWasWritten) {
  for (const RunIdentity& identity : {RunIdentity(), RunIdentity{.id = random_id()}, branch()})
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
