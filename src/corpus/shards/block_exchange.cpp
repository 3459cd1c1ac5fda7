#include "corpus/shards/block_exchange.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// A message begins with this. Then come the number of tokens of each document, uint32, and the
// tokens of all of them; neither for a process that does not write.
struct BlockHead {
  int64_t block = 0;  // kEndOfPass: no block follows in this pass
  uint64_t text = 0;  // a hash of the text
  uint64_t crc = 0;   // CRC-32C of what follows
};
constexpr int64_t kEndOfPass = -1;

std::shared_ptr<const std::string> message_of(BlockHead head, std::string_view content) {
  head.crc = crc32c(0, content.data(), content.size());
  auto message = std::make_shared<std::string>(sizeof head, '\0');
  std::memcpy(message->data(), &head, sizeof head);
  message->append(content);
  return message;
}

template <class Stored>
void append_ids(const std::vector<int32_t>& ids, std::string& bytes) {
  const size_t begin = bytes.size();
  bytes.resize(begin + ids.size() * sizeof(Stored));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto stored = static_cast<Stored>(ids[i]);
    std::memcpy(bytes.data() + begin + i * sizeof stored, &stored, sizeof stored);
  }
}

template <class Stored>
void copy_ids(const char* bytes, std::vector<int32_t>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + i * sizeof stored, sizeof stored);
    ids[i] = static_cast<int32_t>(stored);
  }
}

}  // namespace

BlockExchange::BlockExchange(Peers& peers, std::vector<Member> members, int64_t vocab_size)
    : peers_(peers),
      members_(std::move(members)),
      has_short_ids_(vocab_size <= int64_t{std::numeric_limits<uint16_t>::max()} + 1),
      has_ended_(members_.size(), false),
      text_bytes_(members_.size(), 0) {
  // In turn, so that no process waits for a row of blocks of another one.
  const auto most = std::max_element(members_.begin(), members_.end(),
                                     [](auto& a, auto& b) { return a.threads < b.threads; });
  for (int round = 0; round < std::max(most->threads, 1); ++round) {
    for (size_t rank = 0; rank < members_.size(); ++rank)
      if (round < std::max(members_[rank].threads, 1)) owners_.push_back(static_cast<int>(rank));
  }
}

void BlockExchange::give(int64_t block, const Hash128& text,
                         const std::vector<EncodedDocument>& documents) {
  std::string content;
  for (const EncodedDocument& document : documents) {
    const auto size = static_cast<uint32_t>(document.ids.size());
    content.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  for (const EncodedDocument& document : documents) {
    if (has_short_ids_) {
      append_ids<uint16_t>(document.ids, content);
    } else {
      append_ids<uint32_t>(document.ids, content);
    }
  }
  const auto whole = message_of({block, text.low}, content);
  const auto empty = message_of({block, text.low}, "");
  for (int rank = 0; rank < peers_.count(); ++rank)
    if (rank != peers_.rank())
      peers_.send(rank, members_[static_cast<size_t>(rank)].writes ? whole : empty);
}

void BlockExchange::store_next_of(int owner) {
  std::string message = peers_.receive(owner);
  BlockHead head;
  if (message.size() >= sizeof head) std::memcpy(&head, message.data(), sizeof head);
  if (message.size() < sizeof head ||
      crc32c(0, message.data() + sizeof head, message.size() - sizeof head) != head.crc)
    fail_damaged(owner);
  if (head.block == kEndOfPass) {
    has_ended_[static_cast<size_t>(owner)] = true;
  } else {
    arrived_.emplace(head.block, std::move(message));
  }
}

bool BlockExchange::has(int64_t block) {
  const int owner = owner_of(block);
  while (!arrived_.contains(block) && peers_.has_message(owner)) store_next_of(owner);
  return arrived_.contains(block) || has_ended_[static_cast<size_t>(owner)];
}

void BlockExchange::take(int64_t block, const Hash128& text,
                         std::vector<EncodedDocument>& documents,
                         const std::filesystem::path& file) {
  const int owner = owner_of(block);
  while (!has(block)) store_next_of(owner);
  const auto found = arrived_.find(block);
  if (found == arrived_.end()) fail_other_text(owner, file.string());  // its pass is over
  const std::string message = std::move(found->second);
  arrived_.erase(found);
  BlockHead head;
  std::memcpy(&head, message.data(), sizeof head);
  if (head.text != text.low) fail_other_text(owner, file.string());
  if (!members_[static_cast<size_t>(peers_.rank())].writes) return;
  if (message.size() < sizeof head + documents.size() * sizeof(uint32_t)) fail_damaged(owner);
  const size_t id_bytes = has_short_ids_ ? sizeof(uint16_t) : sizeof(uint32_t);
  size_t sizes = sizeof head, ids = sizes + documents.size() * sizeof(uint32_t);
  for (EncodedDocument& document : documents) {
    uint32_t size = 0;
    std::memcpy(&size, message.data() + sizes, sizeof size);
    sizes += sizeof size;
    if (ids + size * id_bytes > message.size()) fail_damaged(owner);
    document.ids.resize(size);
    if (has_short_ids_) {
      copy_ids<uint16_t>(message.data() + ids, document.ids);
    } else {
      copy_ids<uint32_t>(message.data() + ids, document.ids);
    }
    ids += size * id_bytes;
  }
}

void BlockExchange::end_pass() {
  const auto end = message_of({kEndOfPass}, "");
  for (int rank = 0; rank < peers_.count(); ++rank)
    if (rank != peers_.rank()) peers_.send(rank, end);
  for (int rank = 0; rank < peers_.count(); ++rank) {
    if (rank == peers_.rank()) continue;
    while (!has_ended_[static_cast<size_t>(rank)]) {
      store_next_of(rank);
      if (!arrived_.empty()) fail_other_text(rank, "the last file");
    }
  }
  has_ended_.assign(members_.size(), false);
}

std::string BlockExchange::describe_parts() const {
  const uint64_t all = std::accumulate(text_bytes_.begin(), text_bytes_.end(), uint64_t{0});
  std::vector<std::string> parts;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const double share =
        static_cast<double>(text_bytes_[rank]) / static_cast<double>(std::max<uint64_t>(all, 1));
    parts.push_back(
        str(peers_.name_of(static_cast<int>(rank)), " ", printed("%.0f %%", 100 * share)));
  }
  return join(parts, ", ");
}

void BlockExchange::fail_other_text(int owner, const std::string& where) const {
  throw Error(ErrorKind::kData,
              str(peers_.name_of(owner), " reads other text than this process, at ", where,
                  ": data.train and data.eval must hold the same files on every machine, and stay "
                  "as they are"));
}

void BlockExchange::fail_damaged(int owner) const {
  throw Error(ErrorKind::kIo, str("what ", peers_.name_of(owner),
                                  " has tokenized arrives damaged; check the network and the "
                                  "memory of the machines"));
}

}  // namespace lmtrain
