#include "distributed/device_exchange.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <future>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSpin(1);  // most sums are done by then; until then the wait does not sleep
constexpr std::chrono::seconds kAlone(1);         // longer waits look after the other processes too
constexpr std::chrono::seconds kNcclSilence(60);  // NCCL does not notice that a process has ended
constexpr std::chrono::seconds kAbort(2);
constexpr std::chrono::minutes kConnecting(2);
constexpr const char* kLate = "NCCL has not finished within ";

// Returns the GPU's current stream, a cudaStream_t; null for host memory, which stand-ins exchange.
void* stream_of(const at::Device& device) {
  if (device.is_cpu()) return nullptr;
  const auto* const interface = c10::impl::getDeviceGuardImpl(device.type());
  return interface->getStreamNativeHandle(interface->getStream(device));
}

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

void require_fp32(const at::Tensor& flat) {
  if (flat.scalar_type() != at::kFloat)
    throw Error(ErrorKind::kInternal, "the sum over processes is in fp32");
}

// Returns the part of each rank; an element has `units` units.
std::vector<nccl::RankPart> parts_of(const std::vector<ElementRange>& ranges, size_t units) {
  std::vector<nccl::RankPart> parts;
  for (const ElementRange& range : ranges)
    parts.push_back(
        {units * static_cast<size_t>(range.first), units * static_cast<size_t>(range.size)});
  return parts;
}

// Holds the facts that a process sends to all others before they connect.
struct Offer {
  std::string gpu = "-", id = "-";  // in hexadecimal digits; the id is rank 0's
  int version = 0;
  std::string problem;  // empty: it can connect
};

std::string offer_to_text(const Offer& offer) {
  return str(offer.gpu, " ", offer.id, " ", offer.version, " ", offer.problem);
}

Offer offer_from_text(const std::string& text) {
  Offer offer;
  std::istringstream words(text);
  words >> offer.gpu >> offer.id >> offer.version;
  words.ignore();
  std::getline(words, offer.problem);
  return offer;
}

Offer make_offer(const nccl::Calls* calls, const at::Device& device, bool makes_id) {
  Offer offer;
  offer.version = calls->version();
  std::array<unsigned char, nccl::kGpuBytes> gpu{};
  nccl::Status status = calls->gpu(std::max<int>(device.index(), 0), gpu.data());
  if (status.state == nccl::State::kFailed) {
    offer.problem = status.error;
    return offer;
  }
  offer.gpu = to_hex({reinterpret_cast<const char*>(gpu.data()), gpu.size()});
  if (!makes_id) return offer;
  std::array<char, nccl::kIdBytes> id{};
  status = calls->make_id(id.data());
  if (status.state == nccl::State::kFailed) {
    offer.problem = status.error;
    return offer;
  }
  offer.id = to_hex({id.data(), id.size()});
  return offer;
}

// Returns why these processes cannot be connected; empty where they can. Every process finds the
// same.
std::string why_not(const std::vector<Offer>& offers, const Processes& processes) {
  const auto name = [&](size_t rank) { return processes.name_of(static_cast<int>(rank)); };
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank].problem.empty())
      return str(name(rank), " cannot use NCCL: ", offers[rank].problem);
  }
  for (size_t rank = 1; rank < offers.size(); ++rank) {
    if (offers[rank].version != offers[0].version) {
      return str(name(rank), " has NCCL ", offers[rank].version, ", and ", name(0), " has ",
                 offers[0].version);
    }
    for (size_t other = 0; other < rank; ++other) {
      if (offers[rank].gpu == offers[other].gpu)
        return str(name(other), " and ", name(rank), " share one GPU, which NCCL does not allow");
    }
  }
  return "";
}

void warn(const Processes& processes, const std::string& why) {
  if (!processes.is_first()) return;
  log_warning(
      str("the processes exchange tensors through host memory and Gloo, which is slower: ", why));
}

}  // namespace

struct DeviceExchange::Link {
  const nccl::Calls& calls;
  nccl::Communicator* communicator;                // null: the connection was ended
  nccl::Status status = {nccl::State::kUnderWay};  // the last that poll() has returned

  bool is_under_way() {
    if (communicator == nullptr) return false;  // a thread of the heartbeat came too late
    status = calls.poll(communicator);
    return status.state == nccl::State::kUnderWay;
  }
};

DeviceExchange::DeviceExchange(const nccl::Calls& calls, nccl::Communicator* communicator,
                               Heartbeat& heartbeat)
    : link_(std::make_shared<Link>(Link{calls, communicator})), heartbeat_(heartbeat) {}

// NCCL frees a communicator in a thread that nobody can wait for, and that would still be at work
// when the program exits.
DeviceExchange::~DeviceExchange() {
  if (link_->status.state != nccl::State::kDone) end();
}

// Another thread ends it, since that may wait for a GPU that hangs.
void DeviceExchange::end() {
  nccl::Communicator* const communicator = std::exchange(link_->communicator, nullptr);
  if (communicator == nullptr) return;
  auto ended = std::make_shared<std::promise<void>>();
  const std::future<void> future = ended->get_future();
  std::thread([link = link_, communicator, ended] {
    link->calls.abort(communicator);
    ended->set_value();
  }).detach();
  future.wait_for(kAbort);
}

void DeviceExchange::fail(const std::string& why) {
  end();
  throw std::runtime_error(why);
}

void DeviceExchange::wait(milliseconds limit) {
  const auto begin = Clock::now();
  const auto deadline = begin + limit;
  const auto alone_until = std::min<Clock::time_point>(begin + kAlone, deadline);
  bool is_under_way = link_->is_under_way();
  while (is_under_way && Clock::now() < alone_until) {
    if (Clock::now() - begin > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
    is_under_way = link_->is_under_way();
  }
  if (is_under_way) {
    const auto done = [link = link_, deadline] {
      return !link->is_under_way() || Clock::now() >= deadline;
    };
    if (const auto loss =
            heartbeat_.wait(heartbeat_.others(), done, std::min<milliseconds>(limit, kNcclSilence)))
      fail(loss->cause);
  }
  if (link_->status.state == nccl::State::kFailed) fail(link_->status.error);
  if (link_->status.state == nccl::State::kUnderWay)
    fail(str(kLate, printed("%g", static_cast<double>(limit.count()) / 1000), " s"));
}

void DeviceExchange::finish_connecting(milliseconds limit) { wait(limit); }

template <class Queue>
void DeviceExchange::exchange(const at::Tensor& values, milliseconds limit, const Queue& queue) {
  if (link_->communicator == nullptr) throw std::runtime_error("NCCL's connection was ended");
  if (values.numel() == 0) return;
  const c10::DeviceGuard guard(values.device());
  const nccl::Status status = queue(stream_of(values.device()));
  if (status.state == nccl::State::kFailed) fail(status.error);
  wait(limit);
}

void DeviceExchange::all_reduce(const at::Tensor& flat, milliseconds limit) {
  require_fp32(flat);
  exchange(flat, limit, [&](void* stream) {
    return link_->calls.sum(link_->communicator, flat.data_ptr<float>(),
                            static_cast<size_t>(flat.numel()), stream);
  });
}

void DeviceExchange::broadcast(const at::Tensor& values, milliseconds limit) {
  exchange(values, limit, [&](void* stream) {
    return link_->calls.broadcast(link_->communicator, values.data_ptr(), values.nbytes(), stream);
  });
}

void DeviceExchange::all_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges,
                                milliseconds limit) {
  const std::vector<nccl::RankPart> parts = parts_of(ranges, flat.itemsize());
  exchange(flat, limit, [&](void* stream) {
    return link_->calls.all_gather(link_->communicator, flat.data_ptr(), parts.data(), stream);
  });
}

void DeviceExchange::reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges,
                                    milliseconds limit) {
  require_fp32(flat);
  const std::vector<nccl::RankPart> parts = parts_of(ranges, /*units=*/1);
  exchange(flat, limit, [&](void* stream) {
    return link_->calls.reduce_scatter(link_->communicator, flat.data_ptr<float>(), parts.data(),
                                       stream);
  });
}

void DeviceExchange::swap(int to, const at::Tensor& give, int from, const at::Tensor& take,
                          milliseconds limit) {
  exchange(give.numel() > 0 ? give : take, limit, [&](void* stream) {
    return link_->calls.swap(link_->communicator, to, give.data_ptr(), give.nbytes(), from,
                             take.data_ptr(), take.nbytes(), stream);
  });
}

std::unique_ptr<DeviceExchange> connect_devices(const NcclLibrary& library, Processes& processes,
                                                Heartbeat& heartbeat, const at::Device& device,
                                                milliseconds limit) {
  Offer mine;
  const nccl::Calls* calls = nullptr;
  if (!library.is_wanted) {
    mine.problem = "parallel.nccl is false";
  } else if ((calls = load_nccl(library.file, mine.problem)) != nullptr) {
    mine = make_offer(calls, device, processes.is_first());
  }
  std::vector<Offer> offers;
  for (const std::string& text : processes.all_gather_texts(offer_to_text(mine)))
    offers.push_back(offer_from_text(text));
  if (const std::string why = why_not(offers, processes); !why.empty()) {
    warn(processes, why);
    return nullptr;
  }

  // One process may be refused while the others wait for it. So they wait for less than `limit`,
  // and then all agree.
  std::string refusal;
  std::unique_ptr<DeviceExchange> exchange;
  {
    const c10::DeviceGuard guard(device);
    nccl::Communicator* communicator = nullptr;
    const nccl::Status status = calls->connect(bytes_of(offers[0].id).data(), processes.rank(),
                                               processes.count(), device.index(), &communicator);
    exchange = std::make_unique<DeviceExchange>(*calls, communicator, heartbeat);
    try {
      if (status.state == nccl::State::kFailed) throw std::runtime_error(status.error);
      exchange->finish_connecting(std::min<milliseconds>(limit / 2, kConnecting));
    } catch (const std::runtime_error& error) {
      refusal = error.what();
    }
  }
  const std::vector<std::string> refusals = processes.all_gather_texts(refusal);
  // A process that has only waited too long does not know the cause.
  for (const bool are_causes : {true, false}) {
    for (size_t rank = 0; rank < refusals.size(); ++rank) {
      if (refusals[rank].empty() || (are_causes && refusals[rank].starts_with(kLate))) continue;
      warn(processes,
           str(processes.name_of(static_cast<int>(rank)), " cannot use NCCL: ", refusals[rank]));
      return nullptr;
    }
  }
  return exchange;
}

}  // namespace lmtrain
