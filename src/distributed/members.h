// The processes of a run, as they present themselves to each other where they meet
// (distributed/meeting.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/launcher.h"

namespace lmtrain {

// Describes one process to the others.
struct Member {
  std::string host;
  std::string machine;  // differs between machines of one name
  int64_t process = 0;
  int local_rank = -1;        // -1: not told by the launcher
  uint64_t processors = 0;    // a hash of those that it may use
  std::string address = "?";  // on the way to where the processes meet; "?" where not known
};

// Returns what the others are told of this process.
Member this_member(const Launch& launch);
// Writes a member as one line of text, and reads it.
std::string member_to_text(const Member& member);
Member member_from_text(const std::string& text);

// Returns the rank of each member on its machine: as told by the launcher, else by counting the
// members of its machine in the order of ranks.
std::vector<int> local_ranks(const std::vector<Member>& members);

// Returns the address by which the processes of other machines reach `self`: its address on the way
// to where all meet, or, where that is its own machine, on the way to the first process on another
// machine. It is empty where it is not known.
std::string address_for_others(const std::vector<Member>& members, const Member& self);

}  // namespace lmtrain
