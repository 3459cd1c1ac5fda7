#include "distributed/members.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/hash.h"
#include "base/machine.h"
#include "base/text.h"
#include "distributed/local_address.h"

namespace lmtrain {

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
