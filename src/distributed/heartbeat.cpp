#include "distributed/heartbeat.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "base/stop.h"
#include "base/text.h"
#include "distributed/within.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;

constexpr auto kBeat = 500ms;
constexpr auto kAnswer = 2s;        // of a store that is well
constexpr auto kAnswerToOne = 5ms;  // more for each process that all ask about
constexpr auto kSilence = 2500ms;   // without a beat: that process does not run
constexpr std::chrono::milliseconds kSilenceAfterSignal = 5s;
constexpr auto kStay = 3s;            // the store's server waits so long for others to read a loss
constexpr auto kLongestSave = 10min;  // after the end of another process
constexpr const char* kGivenUp = "given_up";

std::string loss_to_text(const Loss& loss) {
  return str(loss.exit_code, " ", loss.num_lost, "\n", loss.cause);
}

Loss loss_from_text(const std::string& text) {
  Loss loss;
  std::istringstream numbers(text);
  numbers >> loss.exit_code >> loss.num_lost;
  const size_t newline = text.find('\n');
  if (newline != std::string::npos) loss.cause = text.substr(newline + 1);
  return loss;
}

std::string beat_key(size_t rank) { return str("beat/", rank); }

// "exchanges beats"
int64_t exchanges_of(const std::string& beat) { return std::atoll(beat.c_str()); }

}  // namespace

struct Heartbeat::State {
  c10::intrusive_ptr<c10d::Store> store;
  Group group;
  EndProcess end_process;
  Clock::duration forced_end;
  std::atomic<int64_t> exchanges = 0;
  std::atomic<bool> is_saving = false;
  // This process has counted itself as a reader of the loss, or writes the loss itself.
  std::atomic<bool> has_read = false;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool stop = false;
  bool stopped = false;
  std::optional<Loss> loss;  // somebody has given up
  Clock::time_point loss_known;

  std::string server_name() const {
    return group.server ? group.names[static_cast<size_t>(*group.server)]
                        : std::string("the agent of torchrun");
  }
  std::optional<Loss> known_loss() {
    const std::lock_guard lock(mutex);
    return loss;
  }
  Loss learn(const Loss& found) {
    const std::lock_guard lock(mutex);
    if (!loss) {
      loss = found;
      loss_known = Clock::now();
    }
    return *loss;
  }

  void run();
  void beat(int64_t number);
  // Returns the last sign of life of each of `ranks`, an empty text if a rank has given none;
  // nothing if the store does not answer.
  static std::optional<std::vector<std::string>> beats(const std::shared_ptr<State>& self,
                                                       const std::vector<int>& ranks);
  // Writes a loss to the store, unless one is there. Returns the loss in the store; nothing if the
  // store is silent.
  static std::optional<Loss> put_down(const std::shared_ptr<State>& self, const Loss& loss);
  Loss server_is_lost(const std::string& seen) const {
    return {.cause =
                str(server_name(), ", where the processes meet, has ended or cannot be reached",
                    seen.empty() ? "" : ": ", seen)};
  }
};

void Heartbeat::State::beat(int64_t number) {
  store->set(beat_key(static_cast<size_t>(group.rank)), str(exchanges.load(), " ", number));
  if (has_read || !store->check({kGivenUp})) return;
  learn(loss_from_text(store->get_to_str(kGivenUp)));
  if (!has_read.exchange(true)) store->add("read", 1);
}

void Heartbeat::State::run() {
  Clock::time_point last_save;
  for (int64_t number = 0;; ++number) {
    try {
      beat(number);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (stop) break;
      if (!loss) {
        loss = server_is_lost("");
        loss_known = Clock::now();
      }
    }
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, kBeat, [this] { return stop; })) break;
    const Clock::time_point now = Clock::now();
    if (is_saving && now - loss_known < kLongestSave) last_save = now;
    if (loss && now - std::max(loss_known, last_save) > forced_end) {
      const Loss why = *loss;
      lock.unlock();
      end_process(why);
      return;
    }
  }
  const std::lock_guard lock(mutex);
  stopped = true;
  changed.notify_all();
}

std::optional<std::vector<std::string>> Heartbeat::State::beats(const std::shared_ptr<State>& self,
                                                                const std::vector<int>& ranks) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(beat_key(static_cast<size_t>(rank)));
  // All others may ask at the same time.
  const auto limit = kAnswer + ranks.size() * kAnswerToOne;
  return within(limit, [self, keys] {
    c10d::Store& store = *self->store;
    std::vector<std::string> all;
    if (store.hasExtendedApi() && store.check(keys)) {
      for (const std::vector<uint8_t>& beat : store.multiGet(keys))
        all.emplace_back(beat.begin(), beat.end());
      return all;
    }
    for (const std::string& key : keys)
      all.push_back(store.check({key}) ? store.get_to_str(key) : std::string());
    return all;
  });
}

std::optional<Loss> Heartbeat::State::put_down(const std::shared_ptr<State>& self,
                                               const Loss& loss) {
  const auto first = within(kAnswer, [self, text = loss_to_text(loss)] {
    return self->store->compareSet(kGivenUp, "", text);
  });
  return first ? std::optional(loss_from_text(*first)) : std::nullopt;
}

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, Group group, EndProcess end_process,
                     std::chrono::milliseconds forced_end)
    : state_(std::make_shared<State>()) {
  state_->store = std::move(store);
  state_->group = std::move(group);
  state_->end_process = std::move(end_process);
  state_->forced_end = forced_end;
  std::thread([state = state_] { state->run(); }).detach();
}

Heartbeat::~Heartbeat() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, 1s, [this] { return state_->stopped; });
}

std::vector<int> Heartbeat::others() const {
  const auto count = static_cast<int>(state_->group.names.size());
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank)
    if (rank != state_->group.rank) ranks.push_back(rank);
  return ranks;
}

void Heartbeat::count_exchange() { ++state_->exchanges; }
void Heartbeat::mark_saving(bool is_saving) { state_->is_saving = is_saving; }
int64_t Heartbeat::exchanges() const { return state_->exchanges; }

void Heartbeat::give_up(const Loss& loss) noexcept {
  try {
    const auto state = state_;
    const std::optional<Loss> known = state->known_loss();
    const bool is_counted = state->has_read.exchange(true);
    const std::optional<Loss> first = State::put_down(state, known.value_or(loss));
    if (!first) return;
    const bool is_own_end = !known && first->cause == loss.cause;
    if (!is_counted && !is_own_end)
      within(kAnswer, [state] { return state->store->add("read", 1); });
    if (state->group.server != state->group.rank) return;
    const auto awaited = static_cast<int64_t>(state->group.names.size()) - first->num_lost;
    const auto deadline = Clock::now() + kStay;
    while (Clock::now() < deadline) {
      const auto readers = within(kAnswer, [state] { return state->store->add("read", 0); });
      if (!readers || *readers >= awaited) return;
      std::this_thread::sleep_for(50ms);
    }
  } catch (...) {  // the process ends anyway
  }
}

Loss Heartbeat::find_cause(const std::string& seen) {
  const auto state = state_;
  const auto given_up = [&](Clock::duration patience) -> std::optional<Loss> {
    const auto deadline = Clock::now() + patience;
    do {
      if (std::optional<Loss> loss = state->known_loss()) return loss;
      std::this_thread::sleep_for(50ms);
    } while (Clock::now() < deadline);
    return state->known_loss();
  };
  if (const std::optional<Loss> loss = given_up(2 * kBeat)) return *loss;
  std::vector<int> ranks;
  for (size_t rank = 0; rank < state->group.names.size(); ++rank)
    ranks.push_back(static_cast<int>(rank));
  const auto before = State::beats(state, ranks);
  if (!before) return state->learn(state->server_is_lost(seen));
  if (const std::optional<Loss> loss = given_up(kSilence)) return *loss;
  const auto after = State::beats(state, ranks);
  if (!after) return state->learn(state->server_is_lost(seen));

  std::vector<std::string> silent, behind;
  for (size_t rank = 0; rank < after->size(); ++rank) {
    if (rank == static_cast<size_t>(state->group.rank)) continue;
    const std::string& name = state->group.names[rank];
    if ((*after)[rank] == (*before)[rank]) silent.push_back(name);
    if (exchanges_of((*after)[rank]) < state->exchanges) behind.push_back(name);
  }
  std::string cause;
  if (!silent.empty()) {
    cause = str(join(silent, ", "), silent.size() == 1 ? " gives" : " give",
                " no sign of life any more (killed, stopped, or cut off)");
  } else if (!behind.empty()) {
    cause = str(join(behind, ", "), behind.size() == 1 ? " has" : " have",
                " not come to an exchange in time, though alive");
  } else {
    cause = "the connection between the processes is broken, though all of them live";
  }
  const Loss found{
      .cause = str(cause, "; seen by ", state->group.names[static_cast<size_t>(state->group.rank)],
                   ": ", seen),
      .num_lost = static_cast<int64_t>(silent.size())};
  return state->learn(State::put_down(state, found).value_or(found));
}

std::optional<Loss> Heartbeat::wait(const std::vector<int>& awaited,
                                    const std::function<bool()>& done,
                                    std::chrono::milliseconds patience) {
  const auto state = state_;
  std::vector<std::string> last(awaited.size());
  std::vector<Clock::time_point> changed(awaited.size(), Clock::now());
  Pause pause(state->group.names.size());
  // Less often where many processes ask about many.
  const auto interval = std::max<Clock::duration>(kBeat, awaited.size() * 2 * kAnswerToOne);
  auto beats_read = Clock::now();
  for (;;) {
    if (std::optional<Loss> loss = state->known_loss()) return loss;
    const std::optional<bool> is_done = within(patience, done);
    if (!is_done) return state->learn(state->server_is_lost(""));
    if (*is_done) return std::nullopt;
    std::optional<std::vector<std::string>> beats;
    const bool reads_beats = Clock::now() - beats_read >= interval;
    if (reads_beats) {
      beats = State::beats(state, awaited);
      beats_read = Clock::now();
    }
    for (size_t i = 0; i < awaited.size() && reads_beats; ++i) {
      if (beats && (*beats)[i] != last[i]) {
        last[i] = (*beats)[i];
        changed[i] = Clock::now();
      }
      // After a signal this process does not wait long for a silent one.
      const auto limit = stop_signal() == 0 ? patience : std::min(patience, kSilenceAfterSignal);
      if (Clock::now() - changed[i] > limit) {
        const Loss silent{.cause = str(state->group.names[static_cast<size_t>(awaited[i])],
                                       " gives no sign of life any more")};
        return state->learn(State::put_down(state, silent).value_or(silent));
      }
    }
    pause.wait();
  }
}

std::optional<bool> Heartbeat::ask(const std::function<bool()>& question) {
  return within(kAnswer, question);
}

void Heartbeat::leave() {
  const auto state = state_;
  {
    const std::lock_guard lock(state->mutex);
    state->stop = true;
    state->changed.notify_all();
  }
  const bool serves = state->group.server == state->group.rank;
  const auto others = static_cast<int64_t>(state->group.names.size()) - 1;
  const auto deadline = Clock::now() + kStay;
  std::optional<int64_t> left =
      within(kAnswer, [state, serves] { return state->store->add("left", serves ? 0 : 1); });
  while (serves && left && *left < others && Clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
    left = within(kAnswer, [state] { return state->store->add("left", 0); });
  }
}

}  // namespace lmtrain
