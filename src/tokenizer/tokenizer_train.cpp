// train_tokenizer of tokenizer.h: BPE and byte-level BPE by our own trainers, unigram by
// sentencepiece's on chunks of documents.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/recipe.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/byte_bpe_files.h"
#include "tokenizer/byte_bpe_trainer.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_counter.h"

namespace lmtrain {
namespace {

using Feed = std::function<void(const TextSink&)>;

// Short, since unigram training is slow in long stretches without a space.
constexpr size_t kLargestChunk = 4096;

// The size of the next chunk: up to the end of a line, else up to a space, else a whole number of
// characters.
size_t chunk_size(std::string_view rest) {
  if (rest.size() <= kLargestChunk) return rest.size();
  const std::string_view head = rest.substr(0, kLargestChunk);
  if (const size_t newline = head.rfind('\n'); newline != std::string_view::npos)
    return newline + 1;
  if (const size_t space = head.rfind(' '); space != std::string_view::npos && space > 0)
    return space;
  size_t size = kLargestChunk;
  while (size > kLargestChunk - 4 && is_utf8_continuation(rest[size])) --size;
  return size;
}

// Chunks of documents, which sentencepiece calls sentences. They keep their newlines, so that
// pieces of newlines are learned.
class ChunkIterator : public sentencepiece::SentenceIterator {
 public:
  explicit ChunkIterator(const std::vector<std::string>& chunks) : chunks_(chunks) {}
  bool done() const override { return next_ == chunks_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return chunks_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& chunks_;
  size_t next_ = 0;
};

constexpr double kCoverage = 0.9995;

std::string too_large(int64_t vocab_size, int64_t most) {
  return str("tokenizer.train.vocab_size ", vocab_size,
             " is more than the text can fill: set it to at most ", most, ", or give more text");
}

std::string too_small(int64_t vocab_size, int64_t least) {
  return str("tokenizer.train.vocab_size ", vocab_size,
             " is less than the characters and bytes need: set it to at least ", least);
}

// Throws Error(kData) unless `vocab_size` is between the least that the text needs and the most
// that it can fill.
void require_size(int64_t vocab_size, int64_t least, int64_t most) {
  if (vocab_size < least) throw Error(ErrorKind::kData, too_small(vocab_size, least));
  if (vocab_size > most) throw Error(ErrorKind::kData, too_large(vocab_size, most));
}

// Of a vocabulary whose size is chosen, if the characters take all of vocab_size_for().
constexpr int64_t kLeastMerges = 256;

int64_t num_special_pieces(const TokenizerTrainConfig& config) {
  return config.byte_fallback ? 3 + 256 : 3;
}

[[noreturn]] void fail_without_text() {
  throw Error(ErrorKind::kData, "there is no text to train a tokenizer on; check data.train");
}

// Cuts texts into words and counts them, on several threads. Texts go to the threads in batches;
// while all threads are busy the caller counts a batch itself. So memory is bounded: two batches a
// thread, beside the words.
class WordCounting {
 public:
  // Counts the words of a text; each thread has its own.
  using Count = std::function<void(std::string_view text, WordCounter& counter)>;
  using MakeCount = std::function<Count()>;

  WordCounting(int num_threads, const MakeCount& make_count) : count_(make_count()) {
    try {
      for (int i = 1; i < std::min(num_threads, kMostThreads); ++i)
        threads_.push_back(start_thread([this, count = make_count()] { work(count); }));
    } catch (...) {
      end_threads();
      throw;
    }
  }
  ~WordCounting() { end_threads(); }
  WordCounting(const WordCounting&) = delete;
  WordCounting& operator=(const WordCounting&) = delete;

  void add(std::string_view text) {
    num_bytes_ += static_cast<double>(text.size());
    if (threads_.empty()) return count_(text, counter_);
    batch_.bytes += text;
    batch_.ends.push_back(batch_.bytes.size());
    if (batch_.bytes.size() >= kBatch) pass_on();
  }

  double num_bytes() const { return num_bytes_; }  // of all texts

  // Returns the words of all texts. Throws what a thread has thrown.
  WordCounts words() {
    if (!batch_.ends.empty()) count_batch(std::exchange(batch_, {}), count_, counter_);
    end_threads();
    if (error_) std::rethrow_exception(error_);
    return std::exchange(counter_, {}).sorted();
  }

 private:
  static constexpr size_t kBatch = size_t{1} << 20;
  static constexpr int kMostThreads = 16;  // each may hold all words of the text
  struct Batch {
    std::string bytes;
    std::vector<size_t> ends;  // of texts
  };

  static void count_batch(const Batch& batch, const Count& count, WordCounter& counter) {
    size_t begin = 0;
    for (const size_t end : batch.ends) {
      count(std::string_view(batch.bytes).substr(begin, end - begin), counter);
      begin = end;
    }
  }

  void pass_on() {
    Batch batch = std::exchange(batch_, {});
    {
      const std::lock_guard lock(mutex_);
      if (batches_.size() < threads_.size()) {
        batches_.push_back(std::move(batch));
        changed_.notify_one();
        return;
      }
    }
    count_batch(batch, count_, counter_);
  }

  void work(const Count& count) {
    WordCounter counter;
    std::unique_lock lock(mutex_);
    try {
      for (;;) {
        changed_.wait(lock, [this] { return is_over_ || !batches_.empty(); });
        if (batches_.empty()) break;
        const Batch batch = std::move(batches_.front());
        batches_.pop_front();
        lock.unlock();
        count_batch(batch, count, counter);
        lock.lock();
      }
      counter_of_threads_.add(counter);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
    }
  }

  void end_threads() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    counter_.add(std::exchange(counter_of_threads_, {}));
  }

  Count count_;
  WordCounter counter_;
  Batch batch_;
  double num_bytes_ = 0;
  std::mutex mutex_;  // guards the members below, not threads_
  std::condition_variable changed_;
  std::deque<Batch> batches_;
  WordCounter counter_of_threads_;
  std::exception_ptr error_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

std::string train_bpe_model(const TokenizerTrainConfig& config, const Feed& feed, int num_threads,
                            double coverage) {
  WordCounting counting(num_threads, [] {
    return [](std::string_view text, WordCounter& counter) { counter.add(text); };
  });
  feed([&](std::string_view text) { counting.add(text); });
  WordCounts words = counting.words();
  if (words.empty()) fail_without_text();
  const int64_t num_special = num_special_pieces(config);
  const int64_t vocab_size = config.vocab_size.value_or(vocab_size_for(counting.num_bytes()));
  const BpePieces pieces = train_bpe(std::move(words), vocab_size - num_special, coverage,
                                     /*work=*/nullptr, config.vocab_size ? 0 : kLeastMerges);
  const auto num_characters = static_cast<int64_t>(pieces.characters.size());
  const int64_t size = num_special + num_characters + static_cast<int64_t>(pieces.merges.size());
  if (config.vocab_size) require_size(vocab_size, num_special + num_characters, size);
  return bpe_model(pieces, config.byte_fallback, coverage);
}

// Bounds the longest token, and so the size of tokenizer.json, for text that the pre-tokenizer does
// not cut, in bytes. Ordinary text has no such words.
constexpr size_t kLongestByteBpeWord = 4096;

WordCounting::Count count_byte_bpe_words(const PreTokenizer& pre_tokenizer) {
  const auto scratch = std::make_shared<PreTokenizer::Scratch>();
  return [&pre_tokenizer, scratch](std::string_view text, WordCounter& counter) {
    std::string valid;
    if (!is_utf8(text)) text = valid = replacing_malformed(text);
    pre_tokenizer.split(text, *scratch, [&](std::string_view word) {
      for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestByteBpeWord)))
        counter.add_word(word.substr(0, kLongestByteBpeWord));
    });
  };
}

std::vector<TokenizerFile> train_byte_bpe_tokenizer(const TokenizerConfig& config, const Feed& feed,
                                                    int num_threads) {
  const PreTokenizer pre_tokenizer = byte_bpe_pre_tokenizer();
  WordCounting counting(num_threads, [&] { return count_byte_bpe_words(pre_tokenizer); });
  feed([&](std::string_view text) { counting.add(text); });
  WordCounts words = counting.words();
  if (words.empty()) fail_without_text();
  const int64_t vocab_size = config.train.vocab_size.value_or(vocab_size_for(counting.num_bytes()));
  const BpeModel model = train_byte_bpe(std::move(words), vocab_size - kNumByteBpeSpecials);
  const int64_t size = static_cast<int64_t>(model.tokens.size()) + kNumByteBpeSpecials;
  if (config.train.vocab_size) require_size(vocab_size, size, size);
  return byte_bpe_files(model, config.add_bos.value_or(true));
}

// sentencepiece's words for a vocabulary that does not fit end in the limit.
std::string explain(const std::string& message, int64_t vocab_size) {
  const auto number_after = [&](std::string_view words) -> int64_t {
    const size_t offset = message.find(words);
    return offset == std::string::npos
               ? 0
               : std::strtoll(message.c_str() + offset + words.size(), nullptr, 10);
  };
  if (const int64_t most = number_after("value <= "); most > 0) return too_large(vocab_size, most);
  if (const int64_t least = number_after(str(vocab_size, " vs ")); least > 0)
    return too_small(vocab_size, least);
  return str("sentencepiece cannot train a tokenizer: ", message);
}

int64_t num_characters(const std::vector<std::string>& chunks) {
  std::unordered_set<char32_t> characters;
  for (const std::string_view chunk : chunks) {
    for (std::string_view rest = chunk; !rest.empty();) {
      char32_t character = 0;
      const size_t size = decode_utf8(rest, character);
      if (size > 0) characters.insert(character);
      rest.remove_prefix(std::max<size_t>(size, 1));  // a malformed byte
    }
  }
  return static_cast<int64_t>(characters.size());
}

// sentencepiece's trainer leaves out chunks with U+2585, and learns no tab and no NUL. It ends the
// process if nothing else is there.
bool has_trainable_text(const std::vector<std::string>& chunks) {
  return std::ranges::any_of(chunks, [](const std::string& chunk) {
    return chunk.find("\xE2\x96\x85") == std::string::npos &&
           chunk.find_first_not_of(std::string_view("\t\0", 2)) != std::string::npos;
  });
}

std::string train_unigram_model(const TokenizerTrainConfig& config, const Feed& feed,
                                double coverage) {
  double bytes = 0;
  std::vector<std::string> chunks;
  feed([&](std::string_view text) {
    bytes += static_cast<double>(text.size());
    while (!text.empty()) {
      chunks.emplace_back(text.substr(0, chunk_size(text)));
      text.remove_prefix(chunks.back().size());
    }
  });
  if (!has_trainable_text(chunks)) fail_without_text();
  const int64_t vocab_size =
      config.vocab_size
          ? *config.vocab_size
          : std::max(vocab_size_for(bytes),
                     num_special_pieces(config) + num_characters(chunks) + kLeastMerges);
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "unigram"},
      {"vocab_size", str(vocab_size)},
      {"hard_vocab_limit", config.vocab_size ? "true" : "false"},
      {"byte_fallback", config.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"character_coverage", str(coverage)},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"num_threads", "1"},  // sums of floats depend on it
      {"max_sentence_length", "1048576"},
      {"minloglevel", "2"},
  };
  ChunkIterator iterator(chunks);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
  if (!status.ok()) throw Error(ErrorKind::kData, explain(status.error_message(), vocab_size));
  return model;
}

}  // namespace

std::vector<TokenizerFile> train_tokenizer(const TokenizerConfig& config, const Feed& feed,
                                           int num_threads) {
  const TokenizerTrainConfig& train = config.train;
  // Without bytes to fall back on, a character that is left out is lost.
  const double coverage = train.byte_fallback ? kCoverage : 1.0;
  const auto sentencepiece_files = [](std::string model) -> std::vector<TokenizerFile> {
    return {{std::string(Tokenizer::kSentencePieceModel), std::move(model)}};
  };
  switch (train.type) {
    case TokenizerType::kBpe:
      return sentencepiece_files(train_bpe_model(train, feed, num_threads, coverage));
    case TokenizerType::kUnigram:
      return sentencepiece_files(train_unigram_model(train, feed, coverage));
    case TokenizerType::kByteBpe:
      return train_byte_bpe_tokenizer(config, feed, num_threads);
  }
  throw Error(ErrorKind::kInternal, "tokenizer.train.type is one without a trainer");
}

}  // namespace lmtrain
