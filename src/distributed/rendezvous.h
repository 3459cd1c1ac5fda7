// The processes of a launch meet in c10d's TCPStore before they are connected.
//
// A process that was started again must not take what a former one has left for its peer: the store
// of torchrun's agents keeps all keys, and counts of restarts differ between machines. So rank 0
// opens a session under a random name, and the others enter it. When all are there, rank 0 writes
// the list of those who are. A process that is not on the list waits for the next session.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "distributed/launcher.h"

namespace c10d {
class Store;
}

namespace lmtrain {

// A process as it presents itself to the others.
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

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;  // no other processes write to it
  std::vector<Member> members;            // by rank
};

// Reaches the store of the launch, or serves it, and meets the other processes there; every one
// must call it. Throws Error(kIo) that names the ranks which have not come within `timeout`, or
// says why the address cannot be reached or listened at; StopRequested when a signal comes first.
Rendezvous rendezvous(const Launch& launch, std::chrono::milliseconds timeout);
// Does the same in a store that is there.
Rendezvous rendezvous_in(const c10::intrusive_ptr<c10d::Store>& store, const Launch& launch,
                         std::chrono::milliseconds timeout);

}  // namespace lmtrain
