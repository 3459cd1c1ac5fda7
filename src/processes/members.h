// The processes of a run, as they present themselves to each other in the store where they meet.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "processes/launch.h"

namespace c10d {
class Store;
}

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

// Tells the others of this process, waits for all of them, and returns all, this one too, by rank.
// Throws Error(kIo) that names those which have not come within `timeout`, or the store where it
// does not answer; StopRequested when a signal comes first; and the exceptions of the store.
std::vector<Member> gather_members(const c10::intrusive_ptr<c10d::Store>& store,
                                   const Launch& launch, std::chrono::milliseconds timeout);

// Returns the rank of each member on its machine: as told by the launcher, or else by counting
// those of the same machine.
std::vector<int> local_ranks(const std::vector<Member>& members);
// Returns the ranks of those that prepare data: rank 0, and those of local rank 0.
std::vector<int> leaders_of(const std::vector<Member>& members);

// Returns the address by which the processes of other machines reach `self`: its address on the way
// to where all meet, or, where that is its own machine, on the way to the first process on another
// machine. It is empty where it is not known.
std::string address_for_others(const std::vector<Member>& members, const Member& self);

}  // namespace lmtrain
