#include "distributed/gloo_link.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/text.h"
#include "device/torch_headers.h"
#include "distributed/device_exchange.h"
#include "distributed/local_address.h"

namespace lmtrain {

using std::chrono::milliseconds;

namespace {

// Gloo uses the network interface that a user has named instead of `address`, except for a loopback
// address.
c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(const std::string& address,
                                                                 milliseconds timeout) {
  using Gloo = c10d::ProcessGroupGloo;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const bool is_chosen = interface != nullptr && *interface != '\0' && !is_loopback(address);
  if (is_chosen || address.empty()) return Gloo::Options::create_default(timeout);
  auto options = Gloo::Options::create(timeout);
  options->devices.push_back(Gloo::createDeviceForHostname(address));
  return options;
}

// Copies the elements of a tensor on a GPU from the first range to the last into host memory.
class HostCopy {
 public:
  HostCopy(const at::Tensor& flat, const std::vector<ElementRange>& ranges)
      : flat_(flat), ranges_(ranges), first_(flat.numel()) {
    int64_t end = 0;
    for (const ElementRange& range : ranges) {
      if (range.size == 0) continue;
      first_ = std::min(first_, range.first);
      end = std::max(end, range.end());
    }
    first_ = std::min(first_, end);
    for (ElementRange& range : ranges_) range.first = range.size == 0 ? 0 : range.first - first_;
    values_ = flat.narrow(0, first_, end - first_).cpu();
  }

  const at::Tensor& values() const { return values_; }
  // Returns the ranges within values().
  const std::vector<ElementRange>& ranges() const { return ranges_; }
  // Copies the range of a rank back to the GPU.
  void put_back(size_t rank) const {
    const ElementRange& range = ranges_[rank];
    flat_.narrow(0, first_ + range.first, range.size).copy_(range.of(values_));
  }

 private:
  at::Tensor flat_, values_;
  std::vector<ElementRange> ranges_;
  int64_t first_;
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_gloo(
    const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, int rank, int count,
    const std::string& address, milliseconds timeout) {
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(name, store), rank, count,
      gloo_options(address, GlooLink::limit_of(timeout)));
}

void throw_lost(const Loss& loss) {
  throw ProcessLost(loss.exit_code, str("another process has ended the run: ", loss.cause));
}

GlooLink::GlooLink(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, Heartbeat& heartbeat,
                   milliseconds timeout, GpusOf gpus_of, bool keeps_order)
    : group_(std::move(group)),
      heartbeat_(heartbeat),
      timeout_(timeout),
      gpus_of_(std::move(gpus_of)),
      keeps_order_(keeps_order),
      rank_(group_->getRank()),
      count_(group_->getSize()) {}

GlooLink::~GlooLink() = default;

milliseconds GlooLink::limit_of(milliseconds timeout) {
  const milliseconds search = std::chrono::seconds(5);
  return timeout > 2 * search ? timeout - search : timeout / 2;
}

void GlooLink::set_timeout(milliseconds timeout) {
  timeout_ = timeout;
  group_->setTimeout(limit());
}

void GlooLink::guarded(const char* what, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    throw_lost(heartbeat_.find_cause(
        str(what, " ", heartbeat_.exchanges(), " failed: ", first_line(error.what()))));
  }
}

void GlooLink::exchange(const char* what, const std::function<void()>& work) {
  heartbeat_.count_exchange();
  guarded(what, work);
}

void GlooLink::swap(int to, const at::Tensor& give, int from, const at::Tensor& take) {
  const milliseconds limit = this->limit();
  if (DeviceExchange* const gpus = gpus_of_(give)) return gpus->swap(to, give, from, take, limit);
  std::vector<at::Tensor> given = {give}, taken = {take};
  c10::intrusive_ptr<c10d::Work> receiving, sending;
  if (take.numel() > 0) receiving = group_->recv(taken, from, 0);
  if (give.numel() > 0) sending = group_->send(given, to, 0);
  if (sending) sending->wait(limit);
  if (receiving) receiving->wait(limit);
}

void GlooLink::reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges) {
  DeviceExchange* const gpus = gpus_of_(flat);
  if (gpus == nullptr && !flat.is_cpu()) {
    const HostCopy copy(flat, ranges);
    reduce_scatter(copy.values(), copy.ranges());
    copy.put_back(static_cast<size_t>(rank_));
  } else if (gpus != nullptr && !keeps_order_) {
    exchange("sum", [&] { gpus->reduce_scatter(flat, ranges, limit()); });
  } else if (is_tree()) {
    tree_sum(flat, ranges, rank_, swapping("sum"), flat.is_cpu() ? kHostMessage : kDeviceMessage);
  } else {
    ring_sum(flat, ranges, rank_, passing_on("sum"));
  }
}

void GlooLink::all_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges) {
  DeviceExchange* const gpus = gpus_of_(flat);
  if (gpus == nullptr && !flat.is_cpu()) {
    const HostCopy copy(flat, ranges);
    all_gather(copy.values(), copy.ranges());
    for (size_t rank = 0; rank < ranges.size(); ++rank)
      if (rank != static_cast<size_t>(rank_)) copy.put_back(rank);
  } else if (gpus != nullptr) {
    exchange("gather", [&] { gpus->all_gather(flat, ranges, limit()); });
  } else if (is_tree()) {
    tree_gather(flat, ranges, rank_, swapping("gather"));
  } else {
    ring_gather(flat, ranges, rank_, passing_on("gather"));
  }
}

bool GlooLink::is_tree() const { return std::has_single_bit(static_cast<unsigned>(count_)); }

Exchange GlooLink::swapping(const char* what) {
  return [this, what](int partner, const at::Tensor& give, const at::Tensor& take) {
    exchange(what, [&] { swap(partner, give, partner, take); });
  };
}

PassOn GlooLink::passing_on(const char* what) {
  return [this, what](const at::Tensor& give, const at::Tensor& take) {
    exchange(what, [&] { swap((rank_ + 1) % count_, give, (rank_ + count_ - 1) % count_, take); });
  };
}

}  // namespace lmtrain
