// The functions of NCCL that several processes on GPUs use, as a table. liblmtrain_nccl.so holds
// them: it is linked with NCCL and loaded at run time, so that the program itself needs neither
// NCCL nor a GPU to start. No libtorch here: pointers, sizes and a stream.
//
// The functions throw nothing. connect() and the exchanges (sum, broadcast, all_gather,
// reduce_scatter, swap) do not wait; the exchanges are queued on `stream`, a cudaStream_t. Unless
// they return kFailed, poll() tells when the work is done; until then only poll() and abort() may
// be called. The exchanges take memory of the communicator's GPU, which must be the calling
// thread's current device. One thread at a time may use a communicator.
#pragma once

#include <cstddef>

namespace lmtrain::nccl {

struct Communicator;  // one process's end of a connection between all processes

enum class State : int { kDone, kUnderWay, kFailed };

struct Status {
  State state = State::kDone;
  char error[240] = "";  // why it failed: the function, and what NCCL or CUDA says
};

// A RankPart is the part of a buffer that belongs to one rank: `size` units from the unit `first`.
// It may be empty.
struct RankPart {
  size_t first = 0, size = 0;
};

inline constexpr size_t kIdBytes = 128;  // NCCL_UNIQUE_ID_BYTES
inline constexpr size_t kGpuBytes = 16;

struct Calls {
  // The kRevision with which the library was compiled. It must equal kRevision here.
  int revision;
  // Returns NCCL's own version, such as 22809 for 2.28.9; 0 if NCCL does not say.
  int (*version)();
  // Writes the UUID of a GPU of this machine, kGpuBytes bytes.
  Status (*gpu)(int device, unsigned char* uuid);
  // Writes kIdBytes bytes, the id of a new connection. One process calls it and passes the id on.
  Status (*make_id)(char* id);
  // Begins to connect this process with `count` - 1 others, which call it with the same id. Writes
  // the communicator, also after a failure; null if memory ran out. abort() frees it.
  Status (*connect)(const char* id, int rank, int count, int device, Communicator** communicator);
  // Replaces `count` fp32 numbers by their sum over all processes: the same bits in each.
  Status (*sum)(Communicator* communicator, float* data, size_t count, void* stream);
  // Overwrites `bytes` bytes at `data` in every process by the bytes of rank 0.
  Status (*broadcast)(Communicator* communicator, void* data, size_t bytes, void* stream);
  // Copies the part of each rank to all ranks. `parts` has a RankPart for each rank, in bytes from
  // `data`; they do not overlap, and are the same in every process.
  Status (*all_gather)(Communicator* communicator, void* data, const RankPart* parts, void* stream);
  // Replaces the fp32 numbers of this rank's part by their sum over all processes, in an order that
  // NCCL chooses. `parts` has a RankPart for each rank, in numbers from `data`; they do not
  // overlap, and are the same in every process. Other ranks' parts keep their values.
  Status (*reduce_scatter)(Communicator* communicator, float* data, const RankPart* parts,
                           void* stream);
  // Sends bytes to the rank `to` while it receives bytes from the rank `from`. Either size may be
  // 0. The receiver must take as many bytes as the sender gives.
  Status (*swap)(Communicator* communicator, int to, const void* give, size_t give_bytes, int from,
                 void* take, size_t take_bytes, void* stream);
  // Returns whether connecting, or the last exchange, is done, and does not wait. Any device may be
  // current; the communicator's GPU may be so afterwards.
  Status (*poll)(Communicator* communicator);
  // Ends the work under way, without the other processes, and frees the communicator, perhaps only
  // later. May wait for the GPU. Any device may be current.
  void (*abort)(Communicator* communicator);
};

inline constexpr int kRevision = 2;
// The library exports `const Calls* lmtrain_nccl_calls()` under this name.
inline constexpr const char* kCallsSymbol = "lmtrain_nccl_calls";

}  // namespace lmtrain::nccl
