// By which address the processes of other machines reach one.
#include "distributed/members.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

Member member(const std::string& machine, const std::string& address) {
  Member member;
  member.machine = machine;
  member.address = address;
  return member;
}

TEST(Members, TheAddressOnTheWayToWhereAllMeet) {
  const std::vector<Member> members = {member("a", "127.0.0.1"), member("b", "192.0.2.7")};
  EXPECT_EQ(address_for_others(members, members[1]), "192.0.2.7");
}

// On the machine where all meet that way is the loopback. Without another machine whose address is
// known there is none to be reached by.
TEST(Members, WithoutAnotherMachineThereIsNone) {
  const std::vector<Member> loopbacks = {member("a", "127.0.1.1"), member("b", "127.0.0.1")};
  EXPECT_EQ(address_for_others(loopbacks, loopbacks[0]), "");
  const std::vector<Member> unknown = {member("a", "127.0.1.1"), member("b", "?")};
  EXPECT_EQ(address_for_others(unknown, unknown[0]), "");
  const std::vector<Member> same = {member("a", "127.0.1.1"), member("a", "192.0.2.7")};
  EXPECT_EQ(address_for_others(same, same[0]), "");
}

// By the launcher, where it tells the local rank, else by the order of ranks on a machine.
TEST(Members, LocalRanks) {
  std::vector<Member> members = {member("a", "?"), member("b", "?"), member("a", "?"),
                                 member("b", "?"), member("c", "?")};
  EXPECT_EQ(local_ranks(members), (std::vector<int>{0, 0, 1, 1, 0}));
  const std::vector<int> told = {1, 1, 0, 0, 0};
  for (size_t rank = 0; rank < told.size(); ++rank) members[rank].local_rank = told[rank];
  EXPECT_EQ(local_ranks(members), told);
}

}  // namespace
}  // namespace lmtrain
