// Keeps the scratches that encoders reuse, so that the words in their caches outlive a document.
// Any thread may use a pool.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lmtrain {

template <class Scratch>
class ScratchPool {
 public:
  // Calls work(scratch) with a Scratch that no other thread uses. If `work` throws, drops it.
  template <class Work>
  void with(const Work& work) {
    std::unique_ptr<Scratch> scratch = take();
    work(*scratch);
    put_back(std::move(scratch));
  }

 private:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (scratches_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(scratches_.back());
    scratches_.pop_back();
    return scratch;
  }
  void put_back(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    scratches_.push_back(std::move(scratch));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratches_;
};

}  // namespace lmtrain
