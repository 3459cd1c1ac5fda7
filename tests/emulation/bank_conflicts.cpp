// Counts accesses to shared memory and their bank conflicts (shared_memory.h).
#include <algorithm>
#include <array>
#include <compare>
#include <set>
#include <vector>

#include "shared_memory.h"

namespace emulation {
namespace {

constexpr size_t kBankBytes = 4, kBanks = 32;
constexpr int kLanes = 32;

// The accesses of a turn that a warp makes together.
struct Site {
  unsigned line, column;
  Access access;
  int before;  // accesses of the same thread and turn at the same place
  auto operator<=>(const Site&) const = default;
};
struct Request {
  int lane;
  size_t offset, bytes;
};

bool counting = false;
int current_lane = 0;
std::map<Site, int> times_before;  // of the current thread, by sites whose `before` is 0
std::map<Site, std::vector<Request>> requests;
std::map<std::string, BankUse> uses;
BankUse* use = nullptr;  // of the current kernel

// Passes that serve some lanes at once.
int passes(const std::vector<Request>& lanes) {
  std::array<std::set<size_t>, kBanks> words;
  for (const Request& request : lanes) {
    const size_t last = (request.offset + request.bytes - 1) / kBankBytes;
    for (size_t word = request.offset / kBankBytes; word <= last; ++word)
      words[word % kBanks].insert(word);
  }
  size_t most = 0;
  for (const auto& bank : words) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

void count(const std::vector<Request>& warp) {
  ++use->accesses;
  const int at_once = std::max(4, static_cast<int>(warp.front().bytes)) / 4;
  for (int part = 0; part < at_once; ++part) {
    std::vector<Request> lanes;
    for (const Request& request : warp) {
      if (request.lane / (kLanes / at_once) == part) lanes.push_back(request);
    }
    if (lanes.empty()) continue;
    const int ways = passes(lanes);
    use->conflicts += ways - 1;
    use->most_ways = std::max(use->most_ways, ways);
  }
}

}  // namespace

void note_access(size_t offset, size_t bytes, const Index& where, Access access) {
  if (!counting) return;
  Site site{where.line, where.column, access, 0};
  site.before = times_before[site]++;
  requests[site].push_back({current_lane, offset, bytes});
}

CountBanks::CountBanks() {
  counting = true;
  uses.clear();
}
CountBanks::~CountBanks() { counting = false; }
const std::map<std::string, BankUse>& CountBanks::of_kernels() { return uses; }

void begin_kernel(const char* name) {
  if (counting) use = &uses[name];
}

void begin_thread(int lane) {
  current_lane = lane;
  times_before.clear();
}

void end_turn_of_warp() {
  for (const auto& [site, warp] : requests) count(warp);
  requests.clear();
}

}  // namespace emulation
