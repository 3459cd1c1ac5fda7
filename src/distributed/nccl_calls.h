// The functions of NCCL that several processes on GPUs use, as a table. liblmtrain_nccl.so holds
// them: it is linked with NCCL and loaded at run time, so that the program itself needs neither
// NCCL nor a GPU to start. No libtorch here: pointers, sizes and a stream.
//
// The functions throw nothing. connect() and the exchanges (sum, broadcast, swap), which are queued
// on a stream (a cudaStream_t), do not wait. Unless they return kFailed, poll() says when the work
// is done; until then no other function but abort() may be called on the communicator. The pointers
// of the exchanges are to memory of the communicator's GPU, which must be the current device of the
// calling thread. A communicator is used by one thread at a time.
#pragma once

#include <cstddef>

namespace lmtrain::nccl {

struct Communicator;  // one process's end of a connection between all processes

enum class State : int { kDone, kUnderWay, kFailed };

struct Status {
  State state = State::kDone;
  char error[240] = "";  // why it failed: the function, and what NCCL or CUDA says
};

inline constexpr size_t kIdBytes = 128;  // NCCL_UNIQUE_ID_BYTES
inline constexpr size_t kGpuBytes = 16;

struct Calls {
  // kRevision of the header that the library was compiled with, or it cannot be used.
  int revision;
  // NCCL's own version, such as 22809 for 2.28.9; 0 where it does not say.
  int (*version)();
  // Writes the UUID of a GPU of this machine, kGpuBytes, which no other GPU has.
  Status (*gpu)(int device, unsigned char* uuid);
  // Writes kIdBytes that the processes of one connection must share; one process makes them.
  Status (*make_id)(char* id);
  // Begins to connect this process with `count` - 1 others, which call it with the same id. Writes
  // the communicator, also where it fails, except for want of memory; abort() frees it.
  Status (*connect)(const char* id, int rank, int count, int device, Communicator** communicator);
  // Replaces `count` fp32 numbers by their sum over all processes: the same bits in each.
  Status (*sum)(Communicator* communicator, float* data, size_t count, void* stream);
  // Overwrites `bytes` bytes at `data` in every process by the bytes of rank 0.
  Status (*broadcast)(Communicator* communicator, void* data, size_t bytes, void* stream);
  // Sends bytes to the rank `to` while it receives others from the rank `from`. Either size may be
  // 0; what one rank gives, the other must take.
  Status (*swap)(Communicator* communicator, int to, const void* give, size_t give_bytes, int from,
                 void* take, size_t take_bytes, void* stream);
  // Returns whether connecting, or the last exchange, is done. Does not wait. Needs no current
  // device, and may make the communicator's GPU the current one.
  Status (*poll)(Communicator* communicator);
  // Ends what is under way, without the other processes, and frees the communicator, perhaps only
  // after it has returned. May wait for the GPU. Needs no current device.
  void (*abort)(Communicator* communicator);
};

inline constexpr int kRevision = 1;
// The library exports `const Calls* lmtrain_nccl_calls()` under this name.
inline constexpr const char* kCallsSymbol = "lmtrain_nccl_calls";

}  // namespace lmtrain::nccl
