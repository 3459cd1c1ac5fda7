#include "run/shared/overlapped_sum.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>

#include "base/activities.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// Makes the operators that this thread calls run in it alone.
void compute_alone() {
  at::get_num_threads();  // sets the number of this thread's when it is first called
  omp_set_num_threads(1);
}

}  // namespace

std::vector<GradientChunk> chunks_of(const ParameterLayout& layout,
                                     const std::vector<ElementRange>& needed, int count,
                                     int64_t least) {
  // Where the embeddings, an untied head, the layers' matrices and the norms begin. A tied head is
  // finished with the embeddings.
  std::map<int64_t, int64_t> sizes;  // of the working tensors, by where they begin
  std::vector<int64_t> layer_begins;
  int64_t head_begin = 0;
  for (const WorkingSpec& spec : layout.working()) {
    int64_t& size = sizes[spec.offset];
    size = 1;
    for (const int64_t side : spec.shape) size *= side;
    if (spec.key == "lm_head") head_begin = spec.offset;
    const auto layers = static_cast<int64_t>(layer_begins.size());
    if (spec.layer == layers && spec.offset < layout.decayed_size())
      layer_begins.push_back(spec.offset);
  }
  layer_begins.push_back(layout.decayed_size());

  std::vector<ElementRange> parts;
  const auto add = [&](int64_t begin, int64_t end) {
    if (end > begin) parts.push_back({begin, end - begin});
  };
  if (head_begin > 0) add(head_begin, layer_begins.front());
  for (size_t end = layer_begins.size() - 1; end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && layer_begins[end] - layer_begins[begin] < least) --begin;
    add(layer_begins[begin], layer_begins[end]);
    end = begin;
  }
  add(0, head_begin > 0 ? head_begin : layer_begins.front());
  add(layout.decayed_size(), layout.flat_size());

  std::vector<GradientChunk> chunks;
  for (const ElementRange& part : parts) {
    GradientChunk chunk{part, 0, {}};
    for (const auto& [offset, size] : sizes)
      if (offset >= part.first && offset < part.end()) chunk.numel += size;
    if (needed.empty()) {
      chunk.ranges = even_ranges(part.size, count);
      for (ElementRange& range : chunk.ranges) range.first += part.first;
    }
    for (const ElementRange& range : needed) chunk.ranges.push_back(common(range, part));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

struct OverlappedSum::Work {
  RangeExchange& exchange;
  const std::vector<GradientChunk> chunks;
  const bool gathers;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  at::Tensor gradient;
  std::vector<int64_t> unfinished;  // elements of each chunk
  size_t next = 0;                  // the chunk to be summed; all before it are
  bool stop = false, stopped = false;
  std::exception_ptr error;

  Work(RangeExchange& exchange_, std::vector<GradientChunk> chunks_, bool gathers_)
      : exchange(exchange_), chunks(std::move(chunks_)), gathers(gathers_), next(chunks.size()) {}

  void run();
  void sum(const GradientChunk& chunk) const;
};

void OverlappedSum::Work::sum(const GradientChunk& chunk) const {
  const Activity summing("summing gradients over the processes");
  exchange.sum_ranges(gradient, chunk.ranges);
  if (gathers) exchange.gather_ranges(gradient, chunk.ranges);
}

void OverlappedSum::Work::run() {
  compute_alone();
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock,
                 [&] { return stop || (next < chunks.size() && !error && unfinished[next] <= 0); });
    if (stop) break;
    lock.unlock();
    std::exception_ptr failure;
    try {
      sum(chunks[next]);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    error = failure;
    ++next;
    changed.notify_all();
  }
  stopped = true;
  changed.notify_all();
}

OverlappedSum::OverlappedSum(RangeExchange& exchange, std::vector<GradientChunk> chunks,
                             bool gathers)
    : work_(std::make_shared<Work>(exchange, std::move(chunks), gathers)),
      thread_([work = work_] { work->run(); }) {}

OverlappedSum::~OverlappedSum() {
  std::unique_lock lock(work_->mutex);
  work_->stop = true;
  work_->changed.notify_all();
  const bool ends =
      work_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return work_->stopped; });
  lock.unlock();
  if (ends) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void OverlappedSum::begin(const at::Tensor& gradient) {
  const std::lock_guard lock(work_->mutex);
  work_->gradient = gradient;
  work_->unfinished.clear();
  for (const GradientChunk& chunk : work_->chunks) work_->unfinished.push_back(chunk.numel);
  work_->next = 0;
  has_finished_any_ = false;
}

void OverlappedSum::finish(int64_t first, int64_t size) {
  has_finished_any_ = true;
  const std::lock_guard lock(work_->mutex);
  for (size_t i = 0; i < work_->chunks.size(); ++i)
    work_->unfinished[i] -= common(work_->chunks[i].elements, {first, size}).size;
  work_->changed.notify_all();
}

void OverlappedSum::finish_all() {
  has_finished_any_ = true;
  const std::lock_guard lock(work_->mutex);
  std::fill(work_->unfinished.begin(), work_->unfinished.end(), 0);
  work_->changed.notify_all();
}

void OverlappedSum::wait() {
  std::unique_lock lock(work_->mutex);
  work_->changed.wait(lock, [&] { return work_->next == work_->chunks.size() || work_->error; });
  if (work_->error) std::rethrow_exception(work_->error);
}

}  // namespace lmtrain
