// The account of a GPU's memory, on a CPU: what `script` allocates, and what captured graphs keep.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "device/captured_graph.h"

namespace lmtrain::testing {

// libtorch's CPU allocator, counted as its allocator on a GPU counts: what is allocated while a
// recorder's pool is in use is the pool's, which keeps the most that it has held until the recorder
// goes. Memory freed elsewhere is given to whoever asks next. More than `limit` is refused, in the
// words of that allocator. Allocations from before are not counted. One at a time.
class PooledMemory : public c10::Allocator {
 public:
  explicit PooledMemory(size_t limit = SIZE_MAX) : limit_(limit), usual_(c10::GetCPUAllocator()) {
    static int num_accounts = 0;
    number_ = ++num_accounts;
    account() = this;
    c10::SetCPUAllocator(this, /*priority=*/1);
  }
  ~PooledMemory() override {
    c10::SetCPUAllocator(usual_, /*priority=*/1);
    const std::lock_guard lock(mutex());
    account() = nullptr;
  }
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;

  size_t peak() const { return peak_; }               // of all that was held
  size_t peak_of_pool() const { return pool_peak_; }  // of what graphs kept
  void use_pool(bool in_use) { pool_in_use_ = in_use; }
  void release_pool() {
    const std::lock_guard lock(mutex());
    pool_ = in_pool_;
  }

  c10::DataPtr allocate(size_t size) override {
    {
      const std::lock_guard lock(mutex());
      const size_t in_pool = in_pool_ + (pool_in_use_ ? size : 0);
      const size_t pool = std::max(pool_, in_pool);
      const size_t elsewhere = elsewhere_ + (pool_in_use_ ? 0 : size);
      TORCH_CHECK_WITH(OutOfMemoryError, pool + elsewhere <= limit_,
                       "CUDA out of memory. Tried to allocate ", size >> 10,
                       ".00 KiB. GPU 0 has a total capacity of ", limit_ >> 10, ".00 KiB");
      in_pool_ = in_pool;
      pool_ = pool;
      elsewhere_ = elsewhere;
      pool_peak_ = std::max(pool_peak_, pool_);
      peak_ = std::max(peak_, pool_ + elsewhere_);
    }
    c10::DataPtr inner = usual_->allocate(size);
    void* const data = inner.release_context();
    if (data != nullptr) {
      const std::lock_guard lock(mutex());
      blocks()[data] = {number_, size, pool_in_use_};
    }
    return {data, data, &PooledMemory::free, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &PooledMemory::free; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }

 private:
  struct Block {
    int account = 0;
    size_t size = 0;
    bool from_pool = false;
  };
  // Tensors may outlive the account.
  static std::mutex& mutex() {
    static std::mutex the_one;
    return the_one;
  }
  static std::map<void*, Block>& blocks() {
    static std::map<void*, Block> all;
    return all;
  }
  static PooledMemory*& account() {
    static PooledMemory* the_one = nullptr;
    return the_one;
  }
  static void free(void* data) {
    c10::DeleterFnPtr usual = nullptr;
    {
      const std::lock_guard lock(mutex());
      const auto found = blocks().find(data);
      if (found != blocks().end()) {
        const Block block = found->second;
        blocks().erase(found);
        PooledMemory* const now = account();
        if (now != nullptr && now->number_ == block.account)
          (block.from_pool ? now->in_pool_ : now->elsewhere_) -= block.size;
      }
      usual = account() != nullptr ? account()->usual_->raw_deleter()
                                   : c10::GetCPUAllocator()->raw_deleter();
    }
    usual(data);
  }

  size_t limit_;
  c10::Allocator* usual_;
  int number_ = 0;
  bool pool_in_use_ = false;
  size_t in_pool_ = 0, pool_ = 0, elsewhere_ = 0, pool_peak_ = 0, peak_ = 0;
};

// The CPU's recorder, which does its work in the pool of `memory` as a GPU's does. `before_capture`
// is called where a graph is captured, and may throw.
class PooledRecorder : public GraphRecorder {
 public:
  explicit PooledRecorder(PooledMemory& memory, std::function<void()> before_capture = {})
      : memory_(memory), before_capture_(std::move(before_capture)) {}
  ~PooledRecorder() override { memory_.release_pool(); }
  PooledRecorder(const PooledRecorder&) = delete;
  PooledRecorder& operator=(const PooledRecorder&) = delete;

  void warm_up(const Work& work) override {
    const Use use(memory_);
    work();
  }
  std::unique_ptr<CapturedGraph> capture(const Work& work) override {
    if (before_capture_) before_capture_();
    return std::make_unique<Graph>(memory_, work);
  }

 private:
  class Use {
   public:
    explicit Use(PooledMemory& memory) : memory_(memory) { memory_.use_pool(true); }
    ~Use() { memory_.use_pool(false); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    PooledMemory& memory_;
  };
  class Graph : public CapturedGraph {
   public:
    Graph(PooledMemory& memory, Work work) : memory_(memory), work_(std::move(work)) {}
    void launch() override {
      const Use use(memory_);
      work_();
    }

   private:
    PooledMemory& memory_;
    Work work_;
  };

  PooledMemory& memory_;
  std::function<void()> before_capture_;
};

}  // namespace lmtrain::testing
