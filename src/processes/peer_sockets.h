// Messages between some processes of a run, over TCP connections of their own: one between each two
// of them. A thread sends and receives, so that a process which computes takes what others send.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/peers.h"
#include "processes/watch.h"

namespace c10d {
class Store;
}

namespace lmtrain {

// The facts about the run that its connections need.
struct PeerGroup {
  std::vector<int> ranks;          // of the peers, in the run; ascending
  int self = 0;                    // index of this process in `ranks`
  std::vector<std::string> names;  // of the peers, for messages
  std::string address;             // by which the others reach this process; empty: not known
};

class PeerSockets final : public Peers {
 public:
  // Connects this process with its peers, each of which must do so; they find each other in
  // `store`. `watch` must outlive this object. A process that gives no sign of life for `patience`
  // is lost. Throws ProcessLost, Error(kIo) where an address cannot be reached or listened at, and
  // StopRequested.
  PeerSockets(const c10::intrusive_ptr<c10d::Store>& store, Watch& watch, PeerGroup group,
              std::chrono::milliseconds patience);
  // Closes the connections. What was sent and has not left yet is lost.
  ~PeerSockets() override;

  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }
  std::string name_of(int rank) const override { return group_.names[static_cast<size_t>(rank)]; }
  void send(int to, std::shared_ptr<const std::string> message) override;
  bool has_message(int from) override;
  std::string receive(int from) override;

 private:
  struct State;

  void connect(const c10::intrusive_ptr<c10d::Store>& store);
  // Waits until `done` returns true, as Watch::wait() does.
  void wait(const std::vector<int>& peers, const std::function<bool()>& done);

  Watch& watch_;
  PeerGroup group_;
  std::chrono::milliseconds patience_;
  std::shared_ptr<State> state_;  // shared with what Watch::wait() asks
};

}  // namespace lmtrain
