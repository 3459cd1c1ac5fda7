// The processes of a launch meet in c10d's TCPStore before they are connected.
//
// A process that was started again must not take what a former one has left for its peer: the store
// of torchrun's agents keeps all keys, and counts of restarts differ between machines. So rank 0
// opens a session under a random name, and the others enter it. When all are there, rank 0 writes
// the list of those who are. A process that is not on the list waits for the next session.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <vector>

#include "distributed/launcher.h"
#include "distributed/members.h"

namespace c10d {
class Store;
}

namespace lmtrain {

struct Meeting {
  c10::intrusive_ptr<c10d::Store> store;  // no other processes write to it
  std::vector<Member> members;            // by rank
};

// Reaches the store of the launch, or serves it, and meets the other processes there; every one
// must call it. Throws Error(kIo) that names the ranks which have not come within `timeout`, or
// says why the address cannot be reached or listened at; StopRequested when a signal comes first.
Meeting meet(const Launch& launch, std::chrono::milliseconds timeout);
// Does the same in a store that is there.
Meeting meet_in(const c10::intrusive_ptr<c10d::Store>& store, const Launch& launch,
                std::chrono::milliseconds timeout);

}  // namespace lmtrain
