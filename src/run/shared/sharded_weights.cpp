#include "run/shared/sharded_weights.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "base/activities.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"

namespace lmtrain {

struct WorkLine::State {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  uint64_t added = 0, done = 0;
  bool stop = false, stopped = false;
  std::exception_ptr error;

  void run();
};

void WorkLine::State::run() {
  // What this thread adds up takes little from the computation beside it.
  at::get_num_threads();  // sets the number of this thread's when it is first called
  omp_set_num_threads(1);
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stop || (!waiting.empty() && !error); });
    if (stop) break;
    const std::function<void()> work = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    error = failure;
    ++done;
    changed.notify_all();
  }
  stopped = true;
  changed.notify_all();
}

WorkLine::WorkLine()
    : state_(std::make_shared<State>()), thread_([state = state_] { state->run(); }) {}

WorkLine::~WorkLine() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  const bool ends =
      state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->stopped; });
  lock.unlock();
  if (ends) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

uint64_t WorkLine::add(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back(std::move(work));
  state_->changed.notify_all();
  return ++state_->added;
}

void WorkLine::wait(uint64_t number) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done >= number || state_->error; });
  if (state_->error) std::rethrow_exception(state_->error);
}

void release_outside(const at::Tensor& flat, const ElementRange& elements,
                     const ElementRange& kept) {
  const int64_t before = std::min(elements.end(), kept.first);
  if (before > elements.first)
    release_pages(flat.narrow(0, elements.first, before - elements.first));
  const int64_t after = std::max(elements.first, kept.end());
  if (elements.end() > after) release_pages(flat.narrow(0, after, elements.end() - after));
}

ShardedWeights::ShardedWeights(Processes& processes, const OptimizerShards& shards,
                               const ParameterLayout& layout, at::Tensor weights,
                               at::Tensor gradient)
    : processes_(processes),
      exchange_(processes.aside()),
      weights_(std::move(weights)),
      gradient_(std::move(gradient)) {
  for (const WeightPiece& piece : weight_pieces(layout))
    pieces_.push_back(piece_of(shards, {piece.first, piece.size}));
  norms_ = piece_of(shards, shards.norms());
}

ShardedWeights::Piece ShardedWeights::piece_of(const OptimizerShards& shards,
                                               const ElementRange& elements) const {
  Piece piece{elements, {}, {}};
  for (const ElementRange& range : shards.ranges()) piece.owned.push_back(common(range, elements));
  for (const ElementRange& range : shards.needed_ranges())
    piece.needed.push_back(common(range, elements));
  return piece;
}

void ShardedWeights::start(size_t piece) {
  started_.push_back(
      line_.add([&exchange = exchange_, weights = weights_, owned = pieces_.at(piece).owned] {
        const Activity gathering("gathering weights from the processes");
        exchange.gather_ranges(weights, owned);
      }));
}

void ShardedWeights::await() {
  line_.wait(started_.front());
  started_.erase(started_.begin());
}

void ShardedWeights::release(size_t piece) {
  const auto rank = static_cast<size_t>(processes_.rank());
  release_outside(weights_, pieces_.at(piece).elements, pieces_[piece].owned[rank]);
}

std::function<void()> ShardedWeights::sum_of(const Piece& piece) const {
  return [&exchange = exchange_, gradient = gradient_, piece,
          rank = static_cast<size_t>(processes_.rank())] {
    const Activity summing("summing gradients over the processes");
    exchange.sum_ranges(gradient, piece.needed);
    release_outside(gradient, piece.elements, piece.needed[rank]);
  };
}

void ShardedWeights::take_gradient(size_t piece) {
  if (taken_ > 0) line_.wait(taken_);  // so that one piece waits for its sum, and no more
  taken_ = line_.add(sum_of(pieces_.at(piece)));
}

void ShardedWeights::finish_gradient() { line_.wait(line_.add(sum_of(norms_))); }

}  // namespace lmtrain
