#include "distributed/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/random.h"
#include "base/stop.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "distributed/local_address.h"
#include "distributed/within.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The store may answer so much later than a process has patience.
constexpr milliseconds kAnswer{5000};
// Rank 0 waits at least so long for the store that it serves itself.
constexpr milliseconds kOwnStore{60000};

constexpr const char* kSession = "session";
std::string member_key(const std::string& session, int rank) {
  return str(session, "/member/", rank);
}
std::string list_key(const std::string& session) { return str(session, "/list"); }

struct Gathered {
  std::string session;
  std::vector<std::string> members;  // by rank, as member_to_text(); empty: not all have come
  std::vector<std::string> missing;  // the ranks that have not come
  bool have_begun = false;           // the others have begun without this process
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> missing_in(c10d::Store& store, const std::string& session, int count) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < count; ++rank)
    if (!store.check({member_key(session, rank)})) missing.push_back(str(rank));
  return missing;
}

// Opens the session as rank 0, and waits for the other ranks.
Gathered open_session(c10d::Store& store, int count, const std::string& self,
                      Clock::time_point deadline) {
  Gathered all;
  all.session = random_id();
  std::vector<std::string> keys;
  for (int rank = 0; rank < count; ++rank) keys.push_back(member_key(all.session, rank));
  store.set(keys[0], self);
  store.set(kSession, all.session);
  Pause pause(static_cast<size_t>(count));
  while (!store.check(keys)) {
    if (Clock::now() >= deadline) {
      all.missing = missing_in(store, all.session, count);
      return all;
    }
    pause.wait();
  }
  for (const std::string& key : keys) all.members.push_back(store.get_to_str(key));
  store.set(list_key(all.session), join(all.members, "\n"));
  return all;
}

// Enters the session of rank 0 as another rank.
Gathered enter_session(c10d::Store& store, int rank, int count, const std::string& self,
                       Clock::time_point deadline) {
  Gathered all;
  for (Pause pause(static_cast<size_t>(count));; pause.wait()) {
    const std::string session = store.check({kSession}) ? store.get_to_str(kSession) : "";
    if (session != all.session) {
      all.session = session;
      all.have_begun = false;
      store.set(member_key(session, rank), self);
    }
    if (!session.empty() && store.check({list_key(session)})) {
      std::vector<std::string> members = lines_of(store.get_to_str(list_key(session)));
      all.have_begun = members.size() != static_cast<size_t>(count) ||
                       members[static_cast<size_t>(rank)] != self;
      if (!all.have_begun) {
        all.members = std::move(members);
        return all;
      }
    }
    if (Clock::now() < deadline) continue;
    all.missing =
        session.empty() ? std::vector<std::string>{"0"} : missing_in(store, session, count);
    return all;
  }
}

// Returns a poll that stops on a signal, and says once, after some seconds, that this process
// waits.
std::function<void()> poll_and_say(const Launch& launch, const std::string& for_whom) {
  constexpr std::chrono::seconds kPatience{5};
  return [text = str("rank ", launch.rank, " of ", launch.count, " waits for ", for_whom, " at ",
                     launch.address, ":", launch.port, " (MASTER_ADDR, MASTER_PORT)"),
          at = Clock::now() + kPatience, said = false]() mutable {
    throw_if_stopped();
    if (said || Clock::now() < at) return;
    said = true;
    log_warning(text);
  };
}

c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.port);
  options.isServer = launch.rank == 0 && !launch.agent_store;
  options.waitWorkers = false;
  options.timeout = options.isServer ? std::max(timeout, kOwnStore) : timeout;
  const auto work = [address = launch.address, options] {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  };
  std::string problem = "it does not answer";
  try {
    if (auto store =
            within_or_throw(options.timeout + kAnswer, work, poll_and_say(launch, "rank 0")))
      return c10::make_intrusive<c10d::PrefixStore>("lmtrain", std::move(*store));
  } catch (const std::exception& error) {
    problem = first_line(error.what());
  }
  throw Error(ErrorKind::kIo,
              str("rank ", launch.rank, " of ", launch.count, " cannot ",
                  options.isServer ? "listen at " : "reach ", launch.address, ":", launch.port,
                  " (MASTER_ADDR, MASTER_PORT): ", problem,
                  options.isServer ? "; is the port in use? choose another one in MASTER_PORT"
                                   : "; is the process of rank 0 running, and the port open?"));
}

Member this_member(const Launch& launch) {
  Member member;
  member.host = host_name();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  member.machine = member.host + boot;
  member.process = ::getpid();
  member.local_rank = launch.local_rank.value_or(-1);
  std::string address = local_address_towards(launch.address);
  if (!address.empty()) member.address = std::move(address);
  member.processors = hash64(processor_mask());
  return member;
}

// Returns a member as one line of text, which member_from_text() reads.
std::string member_to_text(const Member& member) {
  return str(member.process, " ", member.local_rank, " ", member.processors, " ", member.address,
             " ", member.machine, " ", member.host);
}

Member member_from_text(const std::string& text) {
  Member member;
  std::istringstream(text) >> member.process >> member.local_rank >> member.processors >>
      member.address >> member.machine >> member.host;
  return member;
}

}  // namespace

std::vector<int> local_ranks(const std::vector<Member>& members) {
  std::vector<int> ranks;
  for (auto member = members.begin(); member != members.end(); ++member) {
    const auto before = std::count_if(members.begin(), member, [&](const Member& other) {
      return other.machine == member->machine;
    });
    ranks.push_back(member->local_rank >= 0 ? member->local_rank : static_cast<int>(before));
  }
  return ranks;
}

std::string address_for_others(const std::vector<Member>& members, const Member& self) {
  const auto is_known = [](const Member& member) {
    return member.address != "?" && !is_loopback(member.address);
  };
  if (is_known(self)) return self.address;
  for (const Member& member : members) {
    if (is_known(member) && member.machine != self.machine)
      return local_address_towards(member.address);
  }
  return "";
}

Rendezvous rendezvous_in(const c10::intrusive_ptr<c10d::Store>& store, const Launch& launch,
                         milliseconds timeout) {
  // The random name tells this process from another one of its number and machine.
  const auto work = [store, rank = launch.rank, count = launch.count,
                     self = str(random_id(), " ", member_to_text(this_member(launch))),
                     deadline = Clock::now() + timeout] {
    return rank == 0 ? open_session(*store, count, self, deadline)
                     : enter_session(*store, rank, count, self, deadline);
  };
  const std::optional<Gathered> all =
      within_or_throw(timeout + kAnswer, work, poll_and_say(launch, "the other processes"));
  if (all && !all->members.empty()) {
    Rendezvous found{c10::make_intrusive<c10d::PrefixStore>(all->session, store), {}};
    for (const std::string& text : all->members)
      found.members.push_back(member_from_text(text.substr(text.find(' ') + 1)));
    return found;
  }
  const std::string place = str(launch.address, ":", launch.port);
  const std::string self = str("rank ", launch.rank, " of ", launch.count);
  std::string problem;
  if (!all) {
    problem = str(place, ", where the processes meet, does not answer ", self,
                  "; is the process that serves it stopped?");
  } else if (all->have_begun) {
    problem = str("the processes that have met at ", place, " began without ", self,
                  ", which waited ", timeout.count() / 1000,
                  " s for their next start; does another run use the port? choose another one in "
                  "MASTER_PORT");
  } else {
    problem = str("rank ", join(all->missing, ", "), " of ", launch.count, " has not come to ",
                  place, " within ", timeout.count() / 1000, " s");
  }
  throw Error(ErrorKind::kIo, problem);
}

Rendezvous rendezvous(const Launch& launch, milliseconds timeout) {
  return rendezvous_in(connect_store(launch, timeout), launch, timeout);
}

}  // namespace lmtrain
