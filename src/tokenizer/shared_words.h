// The words that threads with one encoder have encoded. Each thread has its own WordCache, which
// gets the words of the other threads from here. Any thread may use it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lmtrain {

// A word of 1 to kLongest bytes, and its ids.
struct alignas(64) EncodedWord {
  static constexpr size_t kLongest = 30;
  static constexpr size_t kMostIds = 8;
  uint8_t size = 0;  // 0: no word
  uint8_t num_ids = 0;
  std::array<char, kLongest> text;
  std::array<int32_t, kMostIds> ids;
};
static_assert(sizeof(EncodedWord) == 64);

class SharedWords {
 public:
  // Adds a user. A single user need publish nothing.
  void join() { num_users_.fetch_add(1, std::memory_order_relaxed); }
  bool has_several_users() const { return num_users_.load(std::memory_order_relaxed) > 1; }

  using Chunk = std::vector<EncodedWord>;
  using ChunkPointer = std::shared_ptr<const Chunk>;
  // Adds words of the user `owner`, any address of its own, up to kMostWords in all.
  void publish(const void* owner, Chunk words) {
    const std::lock_guard lock(mutex_);
    if (num_words_ >= kMostWords) return;
    num_words_ += words.size();
    chunks_.push_back({owner, std::make_shared<const Chunk>(std::move(words))});
    num_chunks_.store(chunks_.size(), std::memory_order_release);
  }
  // Returns what users other than `owner` have published since the last call with this `heard`,
  // which is 0 at first.
  std::vector<ChunkPointer> new_chunks(const void* owner, size_t& heard) {
    std::vector<ChunkPointer> found;
    if (heard == num_chunks_.load(std::memory_order_acquire)) return found;
    const std::lock_guard lock(mutex_);
    for (; heard < chunks_.size(); ++heard) {
      if (chunks_[heard].owner != owner) found.push_back(chunks_[heard].words);
    }
    return found;
  }

 private:
  static constexpr size_t kMostWords = size_t{1} << 17;  // 8 MiB

  struct Published {
    const void* owner;
    ChunkPointer words;
  };
  std::atomic<size_t> num_users_ = 0;
  std::atomic<size_t> num_chunks_ = 0;
  std::mutex mutex_;
  std::vector<Published> chunks_;
  size_t num_words_ = 0;
};

}  // namespace lmtrain
