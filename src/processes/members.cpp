#include "processes/members.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/processors.h"
#include "base/stop.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "processes/local_address.h"
#include "processes/within.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Member this_member(const Launch& launch) {
  Member member;
  member.host = host_name();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  member.machine = member.host + boot;
  member.process = ::getpid();
  member.local_rank = launch.local_rank.value_or(-1);
  std::string address = local_address_towards(launch.address);
  if (!address.empty()) member.address = std::move(address);
  member.processors = hash64(processor_mask());
  return member;
}

std::string member_to_text(const Member& member) {
  return str(member.process, " ", member.local_rank, " ", member.processors, " ", member.address,
             " ", member.machine, " ", member.host);
}

Member member_from_text(const std::string& text) {
  Member member;
  std::istringstream(text) >> member.process >> member.local_rank >> member.processors >>
      member.address >> member.machine >> member.host;
  return member;
}

struct Gathered {
  std::vector<Member> members;
  std::vector<std::string> missing;
  std::exception_ptr failure;  // of the store
};

Gathered gather(c10d::Store& store, int rank, int count, const std::string& self,
                Clock::time_point deadline) {
  const auto key = [](int of) { return str("member/", of); };
  Gathered all;
  store.set(key(rank), self);
  for (int other = 0; other < count; ++other) {
    while (!store.check({key(other)}) && Clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(20));
    if (store.check({key(other)})) {
      all.members.push_back(member_from_text(store.get_to_str(key(other))));
    } else {
      all.missing.push_back(str(other));
    }
  }
  return all;
}

}  // namespace

std::vector<Member> gather_members(const c10::intrusive_ptr<c10d::Store>& store,
                                   const Launch& launch, milliseconds timeout) {
  constexpr milliseconds kAnswer{5000};
  const auto work = [store, rank = launch.rank, count = launch.count,
                     self = member_to_text(this_member(launch)),
                     deadline = Clock::now() + timeout] {
    try {
      return gather(*store, rank, count, self, deadline);
    } catch (const std::exception&) {
      return Gathered{{}, {}, std::current_exception()};
    }
  };
  const std::optional<Gathered> all = within(timeout + kAnswer, work, throw_if_stopped);
  if (all && all->failure) std::rethrow_exception(all->failure);
  if (all && all->missing.empty()) return all->members;
  const std::string place = str(launch.address, ":", launch.port);
  throw Error(ErrorKind::kIo,
              all ? str("rank ", join(all->missing, ", "), " of ", launch.count,
                        " has not come to ", place, " within ", timeout.count() / 1000, " s")
                  : str(place, ", where the processes meet, does not answer rank ", launch.rank,
                        " of ", launch.count, "; is the process that serves it stopped?"));
}

std::vector<int> local_ranks(const std::vector<Member>& members) {
  std::vector<int> ranks;
  for (auto member = members.begin(); member != members.end(); ++member) {
    const auto before = std::count_if(members.begin(), member, [&](const Member& other) {
      return other.machine == member->machine;
    });
    ranks.push_back(member->local_rank >= 0 ? member->local_rank : static_cast<int>(before));
  }
  return ranks;
}

std::vector<int> leaders_of(const std::vector<Member>& members) {
  const std::vector<int> ranks = local_ranks(members);
  std::vector<int> leaders;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (rank == 0 || ranks[rank] == 0) leaders.push_back(static_cast<int>(rank));
  return leaders;
}

std::string address_for_others(const std::vector<Member>& members, const Member& self) {
  const auto is_known = [](const Member& member) {
    return member.address != "?" && !is_loopback(member.address);
  };
  if (is_known(self)) return self.address;
  for (const Member& member : members) {
    if (is_known(member) && member.machine != self.machine)
      return local_address_towards(member.address);
  }
  return "";
}

}  // namespace lmtrain
