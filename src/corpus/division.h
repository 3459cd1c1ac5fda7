// A PreparationDivision is the part of this process in a preparation that several processes make
// together, one of each machine (base/peers.h). All read the text; each encodes a part of it, and
// those that keep data write the whole into the cache of their machine.
//
// Where several of them have one folder as their cache, as on a shared file system, one keeps the
// data there and the others, its guests, find it when it is done. A process whose
// folder is locked by another run is a guest too. So nobody waits for a lock while others wait for
// it, and one folder has one writer where locks do not reach from machine to machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/peers.h"
#include "corpus/cache.h"
#include "corpus/journal.h"
#include "corpus/shards/block_exchange.h"

namespace lmtrain {

class PreparationDivision {
 public:
  // Finds out who lacks data and who has the same folder. All processes must make one, and then
  // make the same calls. `key` is that of the index (Cache::find_index), and `is_ready` says that
  // its entry is there. Takes the lock of the entry where it is free.
  PreparationDivision(Peers& peers, const Cache& cache, const std::string& key, bool is_ready);

  // Returns whether some process lacks the data.
  bool is_needed() const { return is_needed_; }
  // Returns whether this process writes the cache of its machine, whose entry it has locked.
  bool keeps() const { return keeps_; }

  // Tells the others what this process encodes, and with how many threads; `place` is where its
  // shards go on, null where it writes none. Throws Error(kData) that names a process whose
  // fingerprint is another one.
  void agree(const std::string& fingerprint, int threads, const TokensPlace* place);
  // Returns the place from which all encode: the first of those where the shards go on. Nothing:
  // nobody writes.
  const std::optional<TokensPlace>& start() const { return start_; }
  // Returns the exchange of blocks that agree() has arranged.
  BlockExchange exchange(int64_t vocab_size) const { return {peers_, members_, vocab_size}; }

  // Releases the lock of the entry.
  void unlock() { lock_.reset(); }
  // Waits until the first of those with the same folder, the one that keeps data, has called
  // pass_turn(), and so have those before this process who make the same entry of the index. (Where
  // the files of the text have other times on each machine, so have the entries other keys.)
  void await_turn();
  // Lets those go on who wait for this process.
  void pass_turn();

 private:
  // Returns the ranks of this process and of those that lack data in the same folder, in the order
  // of their turns; nothing where this process has its data. `sights` says of each process whose
  // marks it sees.
  std::vector<int> with_same_folder(const std::vector<std::vector<bool>>& sights) const;

  // Returns whether a process that comes later waits for an earlier one of turns_.
  bool waits_for(int later, int earlier) const;

  Peers& peers_;
  std::optional<FileLock> lock_;
  bool is_needed_ = false;
  bool keeps_ = false;
  std::vector<bool> lack_, locked_;  // by rank
  std::vector<std::string> keys_;    // by rank, of its entry of the index
  std::vector<int> turns_;           // with_same_folder()
  std::vector<BlockExchange::Member> members_;
  std::optional<TokensPlace> start_;
};

}  // namespace lmtrain
