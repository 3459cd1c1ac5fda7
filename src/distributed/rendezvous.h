// The processes of a launch find each other in c10d's TCPStore, before they connect.
//
// torchrun's agents may start the processes again with the same store, which keeps the keys of the
// earlier start. So rank 0 opens a session under a random name, and the other ranks enter it. When
// all have entered, rank 0 writes the list of members. A process that is not on the list waits for
// the next session.
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

// Describes a process to the other processes.
struct Member {
  std::string host;
  std::string machine;        // an id; unlike `host` it differs between machines of one name
  int64_t process = 0;        // the process id
  int local_rank = -1;        // -1: the launcher did not say
  uint64_t processors = 0;    // a hash of the set of processors that it may use
  std::string address = "?";  // its own, on the route to Launch::address; "?": not known
};

// Returns the local rank of each member: its own `local_rank`, or else the number of members of
// lower rank on its machine. `members` is indexed by rank.
std::vector<int> local_ranks(const std::vector<Member>& members);

// Returns the address by which processes of other machines reach `self`: self.address or, if that
// is a loopback address, its address on the route to the first member of another machine. Empty if
// it is not known.
std::string address_for_others(const std::vector<Member>& members, const Member& self);

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;  // of this session alone
  std::vector<Member> members;            // by rank
};

// Serves or reaches the store of the launch, and returns when all processes are there; every
// process calls it. Throws Error(kIo) and StopRequested as connect_processes() does.
Rendezvous rendezvous(const Launch& launch, std::chrono::milliseconds timeout);
// Does the same in an existing store.
Rendezvous rendezvous_in(const c10::intrusive_ptr<c10d::Store>& store, const Launch& launch,
                         std::chrono::milliseconds timeout);

}  // namespace lmtrain
