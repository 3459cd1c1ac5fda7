// The table of nccl_calls.h over NVIDIA's NCCL. Communicators are non-blocking: connecting and
// queueing return at once, so that a process can look after the others while it waits.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "distributed/nccl_calls.h"

namespace lmtrain::nccl {

struct Communicator {
  ncclComm_t comm = nullptr;  // NCCL writes it while it connects, so it stays where it is
  cudaEvent_t event = nullptr;
  cudaStream_t stream = nullptr;
  int device = 0;
  int count = 0;              // of ranks
  bool has_exchange = false;  // queued, and poll() has not returned kDone yet
  bool is_recorded = false;   // `event` follows the exchange on the stream
};

namespace {

static_assert(kIdBytes == NCCL_UNIQUE_ID_BYTES);
static_assert(kGpuBytes == sizeof(cudaUUID_t));

Status failure(const char* what, const char* why, const char* more = "") {
  Status status;
  status.state = State::kFailed;
  std::snprintf(status.error, sizeof status.error, "%s: %s%s%s", what, why,
                *more == '\0' ? "" : "; ", more);
  return status;
}

Status under_way() {
  Status status;
  status.state = State::kUnderWay;
  return status;
}

Status checked(const char* what, ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess) return {};
  if (result == ncclInProgress) return under_way();
  const char* more = ncclGetLastError(comm);
  return failure(what, ncclGetErrorString(result), more == nullptr ? "" : more);
}

Status checked(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // it is reported here, and not by the next kernel
  return failure(what, cudaGetErrorString(error));
}

int version() {
  int code = 0;
  return ncclGetVersion(&code) == ncclSuccess ? code : 0;
}

Status gpu(int device, unsigned char* uuid) {
  cudaDeviceProp properties{};
  const Status status =
      checked("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device));
  if (status.state == State::kDone) std::memcpy(uuid, properties.uuid.bytes, kGpuBytes);
  return status;
}

Status make_id(char* id) {
  ncclUniqueId made{};
  const Status status = checked("ncclGetUniqueId", ncclGetUniqueId(&made), nullptr);
  if (status.state == State::kDone) std::memcpy(id, made.internal, kIdBytes);
  return status;
}

Status connect(const char* id, int rank, int count, int device, Communicator** communicator) {
  *communicator = new (std::nothrow) Communicator;
  if (*communicator == nullptr) return failure("connect", "out of memory");
  Communicator& made = **communicator;
  made.device = device;
  made.count = count;
  const Status status =
      checked("cudaEventCreate", cudaEventCreateWithFlags(&made.event, cudaEventDisableTiming));
  if (status.state != State::kDone) {
    made.event = nullptr;
    return status;
  }
  ncclUniqueId shared{};
  std::memcpy(shared.internal, id, kIdBytes);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return checked("ncclCommInitRank",
                 ncclCommInitRankConfig(&made.comm, count, shared, rank, &config), made.comm);
}

// Notes an exchange that NCCL has queued on the stream, or is about to.
Status queued(Communicator* communicator, const char* what, ncclResult_t result,
              cudaStream_t stream) {
  const Status status = checked(what, result, communicator->comm);
  if (status.state == State::kFailed) return status;
  communicator->stream = stream;
  communicator->has_exchange = true;
  communicator->is_recorded = false;
  return under_way();
}

Status sum(Communicator* communicator, float* data, size_t count, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return queued(communicator, "ncclAllReduce",
                ncclAllReduce(data, data, count, ncclFloat32, ncclSum, communicator->comm, on), on);
}

Status broadcast(Communicator* communicator, void* data, size_t bytes, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return queued(communicator, "ncclBroadcast",
                ncclBroadcast(data, data, bytes, ncclUint8, 0, communicator->comm, on), on);
}

// Calls queue(note) between the begin and the end of a group, which NCCL queues as one exchange;
// `queue` passes note() the result of each call.
template <class Queue>
Status queued_group(Communicator* communicator, const char* what, cudaStream_t stream,
                    const Queue& queue) {
  ncclResult_t first = ncclGroupStart();
  const auto note = [&first](ncclResult_t result) {
    if (first == ncclSuccess || first == ncclInProgress) first = result;
  };
  if (first == ncclSuccess) {
    queue(note);
    note(ncclGroupEnd());
  }
  return queued(communicator, what, first, stream);
}

// The parts have different sizes, and NCCL's own all-gather wants equal ones. A group of broadcasts
// sends as many bytes.
Status all_gather(Communicator* communicator, void* data, const RankPart* parts, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return queued_group(communicator, "ncclBroadcast of each rank", on, [&](const auto& note) {
    for (int rank = 0; rank < communicator->count; ++rank) {
      char* const part = static_cast<char*>(data) + parts[rank].first;
      if (parts[rank].size > 0)
        note(ncclBroadcast(part, part, parts[rank].size, ncclUint8, rank, communicator->comm, on));
    }
  });
}

Status reduce_scatter(Communicator* communicator, float* data, const RankPart* parts,
                      void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return queued_group(communicator, "ncclReduce to each rank", on, [&](const auto& note) {
    for (int rank = 0; rank < communicator->count; ++rank) {
      float* const part = data + parts[rank].first;
      if (parts[rank].size > 0) {
        note(ncclReduce(part, part, parts[rank].size, ncclFloat32, ncclSum, rank,
                        communicator->comm, on));
      }
    }
  });
}

Status swap(Communicator* communicator, int to, const void* give, size_t give_bytes, int from,
            void* take, size_t take_bytes, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return queued_group(communicator, "ncclSend and ncclRecv", on, [&](const auto& note) {
    if (give_bytes > 0) note(ncclSend(give, give_bytes, ncclUint8, to, communicator->comm, on));
    if (take_bytes > 0) note(ncclRecv(take, take_bytes, ncclUint8, from, communicator->comm, on));
  });
}

Status poll(Communicator* communicator) {
  if (communicator->comm == nullptr) return failure("NCCL", "there is no communicator");
  ncclResult_t state = ncclSuccess;
  const Status asked =
      checked("ncclCommGetAsyncError", ncclCommGetAsyncError(communicator->comm, &state),
              communicator->comm);
  if (asked.state != State::kDone) return asked;
  const Status status = checked("NCCL", state, communicator->comm);
  if (status.state != State::kDone || !communicator->has_exchange) return status;
  if (!communicator->is_recorded) {
    // The default stream is the current device's.
    Status recorded = checked("cudaSetDevice", cudaSetDevice(communicator->device));
    if (recorded.state != State::kDone) return recorded;
    recorded =
        checked("cudaEventRecord", cudaEventRecord(communicator->event, communicator->stream));
    if (recorded.state != State::kDone) return recorded;
    communicator->is_recorded = true;
  }
  const cudaError_t query = cudaEventQuery(communicator->event);
  if (query == cudaErrorNotReady) {
    cudaGetLastError();  // no error to report later
    return under_way();
  }
  if (query == cudaSuccess) communicator->has_exchange = false;
  return checked("the exchange on the GPU", query);
}

void abort(Communicator* communicator) {
  if (communicator->comm != nullptr) ncclCommAbort(communicator->comm);
  if (communicator->event != nullptr) cudaEventDestroy(communicator->event);
  delete communicator;
}

constexpr Calls kCalls = {kRevision,  version,        gpu,  make_id, connect, sum, broadcast,
                          all_gather, reduce_scatter, swap, poll,    abort};

}  // namespace
}  // namespace lmtrain::nccl

extern "C" __attribute__((visibility("default"))) const lmtrain::nccl::Calls* lmtrain_nccl_calls() {
  return &lmtrain::nccl::kCalls;
}
