// Processes that are started again meet those of their own start.
#include "distributed/meeting.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/error.h"
#include "device/torch_headers.h"
#include "distributed/group.h"

namespace lmtrain {
namespace {

using namespace std::chrono_literals;

class MeetingTest : public ::testing::Test {
 protected:
  // A process of three that comes now.
  std::future<Meeting> come(int rank, std::chrono::milliseconds timeout = 60s) const {
    return std::async(std::launch::async, [this, rank, timeout] {
      return meet_in(store_, launch_of(rank, 3, 29500), timeout);
    });
  }
  // They must have met each other: what one writes the others read.
  static void expect_met(std::vector<std::future<Meeting>> processes) {
    std::vector<Meeting> meetings;
    for (std::future<Meeting>& process : processes) meetings.push_back(process.get());
    meetings[0].store->set("a key", "a value");
    for (const Meeting& meeting : meetings) {
      ASSERT_TRUE(meeting.store->check({"a key"}));
      EXPECT_EQ(meeting.store->get_to_str("a key"), "a value");
      EXPECT_EQ(meeting.members.size(), 3U);
    }
  }
  void expect_all_meet() const {
    std::vector<std::future<Meeting>> processes;
    for (const int rank : {2, 0, 1}) processes.push_back(come(rank));
    expect_met(std::move(processes));
  }
  static std::string problem_of(std::future<Meeting> process) {
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
  std::vector<std::future<Meeting>> processes;
  processes.push_back(come(1));
  processes.push_back(come(2));
  std::this_thread::sleep_for(100ms);
  processes.push_back(come(0));
  expect_met(std::move(processes));
}

// Rank 0 is started again while the others wait: they enter its new session.
TEST_F(MeetingTest, ASecondFirstProcessIsFollowed) {
  std::future<Meeting> former = come(0, 3s);
  std::vector<std::future<Meeting>> processes;
  processes.push_back(come(1));
  EXPECT_NE(problem_of(std::move(former)).find("rank 2 of 3 has not come"), std::string::npos);
  processes.push_back(come(0));
  processes.push_back(come(2));
  expect_met(std::move(processes));
}

// One is started again before all are there: its successor is taken, and it is left behind.
TEST_F(MeetingTest, ASuccessorTakesThePlaceOfAProcess) {
  std::vector<std::future<Meeting>> processes;
  processes.push_back(come(0));
  std::future<Meeting> former = come(1, 6s);
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
  std::future<Meeting> first = come(0, 3s), second = come(2, 3s);
  EXPECT_NE(problem_of(std::move(first)).find("rank 1 of 3 has not come"), std::string::npos);
  EXPECT_NE(problem_of(std::move(second)).find("rank 1 of 3 has not come"), std::string::npos);
}

}  // namespace
}  // namespace lmtrain
