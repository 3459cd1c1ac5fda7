// Peers are processes that do a piece of work together and send each other messages of any size.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace lmtrain {

class Peers {
 public:
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  virtual ~Peers() = default;

  // The rank of this process among its peers, and their number, this one counted.
  int rank() const { return rank_; }
  int count() const { return count_; }
  // Returns a name for messages to people.
  virtual std::string name_of(int rank) const = 0;

  // Sends a message to another process and returns at once. The messages to one process arrive in
  // the order in which they were sent. Threads may call it at the same time.
  virtual void send(int to, std::shared_ptr<const std::string> message) = 0;
  // Returns whether receive() would return at once.
  virtual bool has_message(int from) = 0;
  // Returns the next message of another process. It waits without a time limit as long as all
  // processes give signs of life, and throws an Error that names the process which has ended, or is
  // silent. Throws StopRequested (base/stop.h) on a signal. One thread calls it.
  virtual std::string receive(int from) = 0;

  // Sends `text` to all others, and returns the texts of all, by rank. Every process must call it.
  std::vector<std::string> exchange(const std::string& text) {
    const auto message = std::make_shared<const std::string>(text);
    std::vector<std::string> texts(static_cast<size_t>(count_));
    for (int other = 0; other < count_; ++other)
      if (other != rank_) send(other, message);
    for (int other = 0; other < count_; ++other)
      texts[static_cast<size_t>(other)] = other == rank_ ? text : receive(other);
    return texts;
  }

 protected:
  Peers(int rank, int count) : rank_(rank), count_(count) {}

 private:
  int rank_, count_;
};

}  // namespace lmtrain
