// A BlockExchange divides the blocks of documents that several processes encode together: each
// encodes some of the blocks and sends their tokens to those that write them. All read the same
// documents, so all cut the same blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/peers.h"
#include "corpus/shards/encode.h"

namespace lmtrain {

class BlockExchange {
 public:
  // Describes one of the processes.
  struct Member {
    int threads = 1;      // a process encodes as many blocks as its share of all threads
    bool writes = false;  // it wants the tokens of the others
  };
  // `members` has a process of `peers` each, the same in all of them; `peers` must outlive this
  // object. Tokens travel in two bytes where `vocab_size` allows it.
  BlockExchange(Peers& peers, std::vector<Member> members, int64_t vocab_size);

  // Returns the number of the next block; they go on from one pass over documents to the next.
  int64_t begin_block() { return next_block_++; }
  bool is_mine(int64_t block) const { return owner_of(block) == peers_.rank(); }
  int all_threads() const { return static_cast<int>(owners_.size()); }

  // Sends a block that this process has encoded. `text` is the hash of its text. Threads may call
  // it at the same time.
  void give(int64_t block, const Hash128& text, const std::vector<EncodedDocument>& documents);
  // Returns whether the block of another process has arrived.
  bool has(int64_t block);
  // Fills in the ids of a block that another process has encoded, where this process writes; waits
  // for it. Throws Error(kData) that names `file`, the first one of the block, where that process
  // has read other text, Error(kIo) where the bytes have changed on their way, and the errors of
  // Peers::receive().
  void take(int64_t block, const Hash128& text, std::vector<EncodedDocument>& documents,
            const std::filesystem::path& file);
  // Counts the text of a block for describe_parts().
  void count_text(int64_t block, uint64_t bytes) {
    text_bytes_[static_cast<size_t>(owner_of(block))] += bytes;
  }
  // Ends a pass: waits until all have made it. Throws Error(kData) where another process has read
  // more documents than this one.
  void end_pass();

  // Returns the part that each process has encoded of the text so far, for people: "rank 0 (node7)
  // 51 %, rank 1 (node8) 49 %".
  std::string describe_parts() const;

 private:
  int owner_of(int64_t block) const {
    return owners_[static_cast<size_t>(block % static_cast<int64_t>(owners_.size()))];
  }
  void store_next_of(int owner);
  [[noreturn]] void fail_other_text(int owner, const std::string& where) const;
  [[noreturn]] void fail_damaged(int owner) const;

  Peers& peers_;
  std::vector<Member> members_;
  bool has_short_ids_;
  std::vector<int> owners_;  // of a block, by its number modulo the number of all threads
  int64_t next_block_ = 0;
  std::map<int64_t, std::string> arrived_;
  std::vector<bool> has_ended_;  // by rank: it has ended the pass
  std::vector<uint64_t> text_bytes_;
};

}  // namespace lmtrain
