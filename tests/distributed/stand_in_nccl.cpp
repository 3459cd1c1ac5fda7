#include "distributed/stand_in_nccl.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/nccl_calls.h"

namespace lmtrain::testing {

StandInNccl& stand_in_nccl() {
  static StandInNccl controls;
  return controls;
}

}  // namespace lmtrain::testing

namespace lmtrain::nccl {
namespace {

using testing::stand_in_nccl;

// One exchange between all ranks, or a message from one rank to another.
struct Collective {
  std::vector<float> sum;
  std::string bytes;
  int num_came = 0;
};

// The processes that were connected with one id.
struct Room {
  std::mutex mutex;
  int num_connected = 0;
  std::map<std::string, Collective> collectives;
};

std::mutex g_mutex;  // guards the rest
std::map<std::string, std::shared_ptr<Room>> g_rooms;
int g_num_ids = 0, g_num_gpus = 0, g_num_versions = 0;

Status failed(const char* why) {
  Status status;
  status.state = State::kFailed;
  std::snprintf(status.error, sizeof status.error, "%s", why);
  return status;
}

Status state(bool is_done) {
  Status status;
  status.state = is_done ? State::kDone : State::kUnderWay;
  return status;
}

}  // namespace

struct Communicator {
  std::shared_ptr<Room> room;
  int rank = 0, count = 0;
  int number = 0;                             // of the sum or broadcast
  std::map<int, int> num_sent, num_received;  // messages, by rank
  // Takes the result of what is under way, if it is there.
  bool (*take)(Communicator&) = nullptr;
  std::string key;
  void* data = nullptr;
  size_t size = 0;
  std::vector<RankPart> parts;  // of an all_gather or a reduce_scatter
};

namespace {

int version() {
  const std::lock_guard lock(g_mutex);
  return 22800 + g_num_versions++ % stand_in_nccl().versions;
}

Status gpu(int /*device*/, unsigned char* uuid) {
  if (stand_in_nccl().lacks_gpu.exchange(false)) return failed("no GPU, says the stand-in");
  const std::lock_guard lock(g_mutex);
  std::fill(uuid, uuid + kGpuBytes, static_cast<unsigned char>(0));
  if (!stand_in_nccl().shares_gpu) uuid[0] = static_cast<unsigned char>(++g_num_gpus);
  return {};
}

Status make_id(char* id) {
  const std::lock_guard lock(g_mutex);
  std::fill(id, id + kIdBytes, '\xff');
  std::snprintf(id, kIdBytes, "id %d", ++g_num_ids);
  return {};
}

Status connect(const char* id, int rank, int count, int /*device*/, Communicator** communicator) {
  const std::lock_guard lock(g_mutex);
  std::shared_ptr<Room>& room = g_rooms[std::string(id, kIdBytes)];
  if (!room) room = std::make_shared<Room>();
  *communicator = new Communicator;
  (*communicator)->room = room;
  (*communicator)->rank = rank;
  (*communicator)->count = count;
  ++stand_in_nccl().connected;
  if (stand_in_nccl().refused_rank == rank) return failed("Duplicate GPU detected");
  ++room->num_connected;
  return state(false);
}

Status begin(Communicator& self, const std::string& key, void* data, size_t size,
             bool (*take)(Communicator&)) {
  if (stand_in_nccl().failing_rank == self.rank) return failed("unhandled system error");
  self.key = key;
  self.data = data;
  self.size = size;
  self.take = take;
  return state(false);
}

Status sum(Communicator* self, float* data, size_t count, void* /*stream*/) {
  ++stand_in_nccl().sums;
  const std::string key = "sum " + std::to_string(self->number++);
  if (stand_in_nccl().hanging_rank != self->rank && stand_in_nccl().failing_rank != self->rank) {
    const std::lock_guard lock(self->room->mutex);
    Collective& collective = self->room->collectives[key];
    collective.sum.resize(count);
    for (size_t i = 0; i < count; ++i) collective.sum[i] += data[i];
    ++collective.num_came;
  }
  return begin(*self, key, data, count, [](Communicator& here) {
    Collective& collective = here.room->collectives[here.key];
    if (collective.num_came < here.count) return false;
    std::copy(collective.sum.begin(), collective.sum.end(), static_cast<float*>(here.data));
    return true;
  });
}

// Every rank adds all its numbers, as the library's own order is not to be relied on.
Status reduce_scatter(Communicator* self, float* data, const RankPart* parts, void* /*stream*/) {
  ++stand_in_nccl().reduce_scatters;
  self->parts.assign(parts, parts + self->count);
  const std::string key = "reduce_scatter " + std::to_string(self->number++);
  if (stand_in_nccl().hanging_rank != self->rank && stand_in_nccl().failing_rank != self->rank) {
    const std::lock_guard lock(self->room->mutex);
    Collective& collective = self->room->collectives[key];
    for (const RankPart& part : self->parts) {
      collective.sum.resize(std::max(collective.sum.size(), part.first + part.size));
      for (size_t i = part.first; i < part.first + part.size; ++i) collective.sum[i] += data[i];
    }
    ++collective.num_came;
  }
  return begin(*self, key, data, 0, [](Communicator& here) {
    const Collective& collective = here.room->collectives[here.key];
    if (collective.num_came < here.count) return false;
    const RankPart& mine = here.parts[static_cast<size_t>(here.rank)];
    std::copy_n(collective.sum.begin() + static_cast<std::ptrdiff_t>(mine.first), mine.size,
                static_cast<float*>(here.data) + mine.first);
    return true;
  });
}

Status all_gather(Communicator* self, void* data, const RankPart* parts, void* /*stream*/) {
  ++stand_in_nccl().all_gathers;
  self->parts.assign(parts, parts + self->count);
  const std::string key = "all_gather " + std::to_string(self->number++);
  if (stand_in_nccl().hanging_rank != self->rank && stand_in_nccl().failing_rank != self->rank) {
    const std::lock_guard lock(self->room->mutex);
    Collective& collective = self->room->collectives[key];
    const RankPart& mine = self->parts[static_cast<size_t>(self->rank)];
    collective.bytes.resize(std::max(collective.bytes.size(), mine.first + mine.size));
    std::memcpy(collective.bytes.data() + mine.first, static_cast<const char*>(data) + mine.first,
                mine.size);
    ++collective.num_came;
  }
  return begin(*self, key, data, 0, [](Communicator& here) {
    const Collective& collective = here.room->collectives[here.key];
    if (collective.num_came < here.count) return false;
    for (int rank = 0; rank < here.count; ++rank) {
      const RankPart& part = here.parts[static_cast<size_t>(rank)];
      if (rank != here.rank)
        std::memcpy(static_cast<char*>(here.data) + part.first,
                    collective.bytes.data() + part.first, part.size);
    }
    return true;
  });
}

bool take_bytes_sent(Communicator& here) {
  Collective& collective = here.room->collectives[here.key];
  if (collective.num_came == 0 || collective.bytes.size() != here.size) return false;
  std::memcpy(here.data, collective.bytes.data(), here.size);
  return true;
}

void send(Communicator& self, const std::string& key, const void* data, size_t bytes) {
  const std::lock_guard lock(self.room->mutex);
  Collective& collective = self.room->collectives[key];
  collective.bytes.assign(static_cast<const char*>(data), bytes);
  collective.num_came = 1;
}

Status broadcast(Communicator* self, void* data, size_t bytes, void* /*stream*/) {
  ++stand_in_nccl().broadcasts;
  const std::string key = "broadcast " + std::to_string(self->number++);
  if (self->rank == 0) send(*self, key, data, bytes);
  return begin(*self, key, data, bytes, take_bytes_sent);
}

std::string message(int number, int from, int to) {
  return "message " + std::to_string(number) + " " + std::to_string(from) + " " +
         std::to_string(to);
}

Status swap(Communicator* self, int to, const void* give, size_t give_bytes, int from, void* take,
            size_t take_bytes, void* /*stream*/) {
  ++stand_in_nccl().swaps;
  if (give_bytes > 0) send(*self, message(self->num_sent[to]++, self->rank, to), give, give_bytes);
  if (take_bytes == 0) return begin(*self, "", take, 0, [](Communicator&) { return true; });
  return begin(*self, message(self->num_received[from]++, from, self->rank), take, take_bytes,
               take_bytes_sent);
}

Status poll(Communicator* self) {
  const std::lock_guard lock(self->room->mutex);
  if (self->take == nullptr) return state(self->room->num_connected == self->count);
  return state(self->take(*self));
}

void abort(Communicator* self) {
  ++stand_in_nccl().aborted;
  delete self;
}

constexpr Calls kCalls = {kRevision,  version,        gpu,  make_id, connect, sum, broadcast,
                          all_gather, reduce_scatter, swap, poll,    abort};

}  // namespace
}  // namespace lmtrain::nccl

extern "C" const lmtrain::nccl::Calls* lmtrain_nccl_calls() { return &lmtrain::nccl::kCalls; }
