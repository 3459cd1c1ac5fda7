#include "corpus/shards/block_exchange.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "corpus/folder.h"
#include "corpus/threads_as_peers.h"

namespace lmtrain {
namespace {

using testing::ThreadsAsPeers;

// Block `number` as all processes read it.
std::vector<EncodedDocument> block_of(int64_t number, bool with_ids) {
  std::vector<EncodedDocument> documents(3);
  for (size_t i = 0; i < documents.size(); ++i) {
    documents[i].bytes = 10;
    if (with_ids) documents[i].ids = {static_cast<int32_t>(number), static_cast<int32_t>(i), 65535};
  }
  documents[1].ids.clear();  // an empty document
  return documents;
}
Hash128 text_of(int64_t number) { return {static_cast<uint64_t>(number), 1}; }

// Goes through so many blocks as each of the peers, and expects the ids of the others.
void pass(BlockExchange& exchange, int64_t blocks, bool writes) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t number = exchange.begin_block();
    numbers.push_back(number);
    if (exchange.is_mine(number)) exchange.give(number, text_of(number), block_of(number, true));
  }
  for (const int64_t number : numbers) {
    std::vector<EncodedDocument> documents = block_of(number, false);
    if (!exchange.is_mine(number)) exchange.take(number, text_of(number), documents, "a file");
    exchange.count_text(number, 30);
    const std::vector<EncodedDocument> expected = block_of(number, true);
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool gets_ids = writes && !exchange.is_mine(number);
      EXPECT_EQ(documents[i].ids, gets_ids ? expected[i].ids : std::vector<int32_t>());
    }
  }
  exchange.end_pass();
}

TEST(BlockExchange, TheBlocksAreDividedByThreads) {
  for (const int64_t vocab_size : {int64_t{65536}, int64_t{65537}}) {
    ThreadsAsPeers peers(3);
    for (const std::exception_ptr& error : peers.run([&](Peers& one) {
           BlockExchange exchange(one, {{1, true}, {4, true}, {3, true}}, vocab_size);
           EXPECT_EQ(exchange.all_threads(), 8);
           for (const int64_t blocks : {8, 3, 5, 8}) pass(exchange, blocks, true);
           EXPECT_EQ(exchange.describe_parts(), "rank 0 12 %, rank 1 50 %, rank 2 38 %");
         }))
      EXPECT_FALSE(error);
  }
}

TEST(BlockExchange, TokensGoToThoseWhoWrite) {
  std::vector<uint64_t> bytes;
  for (const bool second_writes : {true, false}) {
    ThreadsAsPeers peers(2);
    for (const std::exception_ptr& error : peers.run([&](Peers& one) {
           BlockExchange exchange(one, {{1, true}, {1, second_writes}}, 100);
           pass(exchange, 10, one.rank() == 0 || second_writes);
         }))
      EXPECT_FALSE(error);
    bytes.push_back(peers.bytes());
  }
  // Five blocks of three sizes of four bytes and six tokens of two.
  EXPECT_EQ(bytes[0] - bytes[1], 5U * (3 * 4 + 6 * 2));
}

// Runs `work` as rank 1, while rank 0 goes through four blocks; returns the error of rank 0.
std::string error_beside(ErrorKind kind, const std::function<void(Peers&, BlockExchange&)>& work) {
  ThreadsAsPeers peers(2);
  const auto errors = peers.run([&](Peers& one) {
    BlockExchange exchange(one, {{1, true}, {1, true}}, 100);
    if (one.rank() == 0) {
      pass(exchange, 4, true);
    } else {
      work(one, exchange);
    }
  });
  return error_of(kind, [&] {
    if (errors[0]) std::rethrow_exception(errors[0]);
  });
}

TEST(BlockExchange, OtherTextIsNoticed) {
  const std::string other = "rank 1 reads other text than this process, at ";
  expect_contains(error_beside(ErrorKind::kData,
                               [](Peers&, BlockExchange& exchange) {
                                 exchange.give(1, text_of(99), block_of(1, true));
                                 exchange.give(3, text_of(3), block_of(3, true));
                               }),
                  other + "a file");
  expect_contains(error_beside(ErrorKind::kData,
                               [](Peers&, BlockExchange& exchange) {
                                 pass(exchange, 2, true);  // and no more
                               }),
                  other + "a file");
  expect_contains(error_beside(ErrorKind::kData,
                               [](Peers&, BlockExchange& exchange) {
                                 for (const int64_t number : {1, 3, 5})
                                   exchange.give(number, text_of(number), block_of(number, true));
                               }),
                  other + "the last file");
}

TEST(BlockExchange, DamagedBytesAreNoticed) {
  for (const bool is_cut : {false, true}) {
    const std::string message = error_beside(ErrorKind::kIo, [&](Peers& one, BlockExchange&) {
      ThreadsAsPeers copy(2);
      std::string bytes;
      copy.run([&](Peers& other) {
        BlockExchange exchange(other, {{1, true}, {1, true}}, 100);
        if (other.rank() == 1) exchange.give(1, text_of(1), block_of(1, true));
        if (other.rank() == 0) bytes = other.receive(1);
      });
      if (is_cut) bytes.resize(10);
      if (!is_cut) bytes.back() = static_cast<char>(bytes.back() ^ 1);
      one.send(0, std::make_shared<const std::string>(bytes));
    });
    expect_contains(message, "rank 1 has tokenized arrives damaged");
  }
}

}  // namespace
}  // namespace lmtrain
