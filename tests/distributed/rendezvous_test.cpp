// Processes that are started again meet those of their own start.
#include "distributed/rendezvous.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/error.h"
#include "device/torch_headers.h"
#include "distributed/group.h"

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

using namespace std::chrono_literals;

class MeetingTest : public ::testing::Test {
 protected:
  // A process of three that comes now.
  std::future<Rendezvous> come(int rank, std::chrono::milliseconds timeout = 60s) const {
    return std::async(std::launch::async, [this, rank, timeout] {
      return rendezvous_in(store_, launch_of(rank, 3, 29500), timeout);
    });
  }
  // They must have met each other: what one writes the others read.
  static void expect_met(std::vector<std::future<Rendezvous>> processes) {
    std::vector<Rendezvous> found;
    for (std::future<Rendezvous>& process : processes) found.push_back(process.get());
    found[0].store->set("a key", "a value");
    for (const Rendezvous& one : found) {
      ASSERT_TRUE(one.store->check({"a key"}));
      EXPECT_EQ(one.store->get_to_str("a key"), "a value");
      EXPECT_EQ(one.members.size(), 3U);
    }
  }
  void expect_all_meet() const {
    std::vector<std::future<Rendezvous>> processes;
    for (const int rank : {2, 0, 1}) processes.push_back(come(rank));
    expect_met(std::move(processes));
  }
  static std::string problem_of(std::future<Rendezvous> process) {
    try {
      process.get();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      return error.what();
    }
  }

  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

// Also where the store keeps all that earlier ones have written.
TEST_F(MeetingTest, EachStartMeetsItself) {
  for (int start = 0; start < 3; ++start) expect_all_meet();
}

// The others have found the session of a former start, and wait for the next one.
TEST_F(MeetingTest, TheFirstProcessComesLast) {
  expect_all_meet();
  std::vector<std::future<Rendezvous>> processes;
  processes.push_back(come(1));
  processes.push_back(come(2));
  std::this_thread::sleep_for(100ms);
  processes.push_back(come(0));
  expect_met(std::move(processes));
}

// Rank 0 is started again while the others wait: they enter its new session.
TEST_F(MeetingTest, ASecondFirstProcessIsFollowed) {
  std::future<Rendezvous> former = come(0, 3s);
  std::vector<std::future<Rendezvous>> processes;
  processes.push_back(come(1));
  EXPECT_NE(problem_of(std::move(former)).find("rank 2 of 3 has not come"), std::string::npos);
  processes.push_back(come(0));
  processes.push_back(come(2));
  expect_met(std::move(processes));
}

// One is started again before all are there: its successor is taken, and it is left behind.
TEST_F(MeetingTest, ASuccessorTakesThePlaceOfAProcess) {
  std::vector<std::future<Rendezvous>> processes;
  processes.push_back(come(0));
  std::future<Rendezvous> former = come(1, 6s);
  std::this_thread::sleep_for(1s);
  processes.push_back(come(1));
  std::this_thread::sleep_for(1s);
  processes.push_back(come(2));
  expect_met(std::move(processes));
  const std::string problem = problem_of(std::move(former));
  EXPECT_NE(problem.find("began without rank 1 of 3"), std::string::npos) << problem;
  EXPECT_NE(problem.find("MASTER_PORT"), std::string::npos) << problem;
}

TEST_F(MeetingTest, WhoDoesNotComeIsNamed) {
  EXPECT_NE(problem_of(come(2, 100ms)).find("rank 0 of 3 has not come"), std::string::npos);
  std::future<Rendezvous> first = come(0, 3s), second = come(2, 3s);
  EXPECT_NE(problem_of(std::move(first)).find("rank 1 of 3 has not come"), std::string::npos);
  EXPECT_NE(problem_of(std::move(second)).find("rank 1 of 3 has not come"), std::string::npos);
}

}  // namespace

}  // namespace lmtrain
