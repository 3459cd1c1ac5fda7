// Peers that are threads of the test: their messages go through memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/peers.h"
#include "base/text.h"

namespace lmtrain::testing {

class ThreadsAsPeers {
 public:
  explicit ThreadsAsPeers(int count) : count_(count) {}

  // Runs `work` as each of the peers. Returns what each has thrown; where one has, the others that
  // wait for it get an error that says so.
  std::vector<std::exception_ptr> run(const std::function<void(Peers&)>& work) {
    std::vector<std::exception_ptr> errors(static_cast<size_t>(count_));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count_; ++rank) {
      threads.emplace_back([&, rank] {
        One one(*this, rank);
        try {
          work(one);
        } catch (...) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
          const std::lock_guard lock(mutex_);
          lost_.insert(rank);
          changed_.notify_all();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  // The bytes sent from all to all.
  uint64_t bytes() const { return bytes_; }

 private:
  class One final : public Peers {
   public:
    One(ThreadsAsPeers& all, int rank) : Peers(rank, all.count_), all_(all) {}
    std::string name_of(int rank) const override { return str("rank ", rank); }
    void send(int to, std::shared_ptr<const std::string> message) override {
      const std::lock_guard lock(all_.mutex_);
      all_.bytes_ += message->size();
      all_.messages_[{rank(), to}].push_back(std::move(message));
      all_.changed_.notify_all();
    }
    bool has_message(int from) override {
      const std::lock_guard lock(all_.mutex_);
      return !all_.messages_[{from, rank()}].empty();
    }
    std::string receive(int from) override {
      std::unique_lock lock(all_.mutex_);
      auto& messages = all_.messages_[{from, rank()}];
      all_.changed_.wait(lock, [&] { return !messages.empty() || all_.lost_.contains(from); });
      if (messages.empty()) throw Error(ErrorKind::kIo, "another rank is lost");
      const std::string message = *messages.front();
      messages.pop_front();
      return message;
    }

   private:
    ThreadsAsPeers& all_;
  };

  int count_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<const std::string>>> messages_;
  uint64_t bytes_ = 0;
  std::set<int> lost_;
};

}  // namespace lmtrain::testing
