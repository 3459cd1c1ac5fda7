// train_tokenizer of tokenizer.h: BPE and byte-level BPE by our own trainers, unigram by
// sentencepiece's on chunks of documents.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
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

[[noreturn]] void fail_without_text() {
  throw Error(ErrorKind::kData, "there is no text to train a tokenizer on; check data.train");
}

std::string train_bpe_model(const TokenizerTrainConfig& config, const Feed& feed, double coverage) {
  WordCounter counter;
  feed([&](std::string_view text) { counter.add(text); });
  const WordCounts words = counter.sorted();
  if (words.empty()) fail_without_text();
  const int64_t num_special = config.byte_fallback ? 3 + 256 : 3;
  const BpePieces pieces = train_bpe(words, config.vocab_size - num_special, coverage);
  const auto num_characters = static_cast<int64_t>(pieces.characters.size());
  const int64_t size = num_special + num_characters + static_cast<int64_t>(pieces.merges.size());
  if (config.vocab_size < num_special + num_characters) {
    throw Error(ErrorKind::kData, too_small(config.vocab_size, num_special + num_characters));
  }
  if (config.vocab_size > size) throw Error(ErrorKind::kData, too_large(config.vocab_size, size));
  return bpe_model(pieces, config.byte_fallback, coverage);
}

// Keeps the trainer linear in text that the pre-tokenizer does not cut, in bytes. Ordinary text has
// no such words.
constexpr size_t kLongestByteBpeWord = 4096;

std::vector<TokenizerFile> train_byte_bpe_tokenizer(const TokenizerConfig& config,
                                                    const Feed& feed) {
  WordCounter counter;
  const PreTokenizer pre_tokenizer = byte_bpe_pre_tokenizer();
  PreTokenizer::Scratch scratch;
  std::string valid;
  feed([&](std::string_view text) {
    if (!is_utf8(text)) {
      valid.clear();
      append_replacing_malformed(valid, text);
      text = valid;
    }
    pre_tokenizer.split(text, scratch, [&](std::string_view word) {
      for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestByteBpeWord)))
        counter.add_word(word.substr(0, kLongestByteBpeWord));
    });
  });
  const WordCounts words = counter.sorted();
  if (words.empty()) fail_without_text();
  const int64_t vocab_size = config.train.vocab_size;
  const ByteBpeModel model = train_byte_bpe(words, vocab_size - kNumByteBpeSpecials);
  const int64_t size = static_cast<int64_t>(model.tokens.size()) + kNumByteBpeSpecials;
  if (vocab_size < size) throw Error(ErrorKind::kData, too_small(vocab_size, size));
  if (vocab_size > size) throw Error(ErrorKind::kData, too_large(vocab_size, size));
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

std::string train_unigram_model(const TokenizerTrainConfig& config, const Feed& feed,
                                double coverage) {
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "unigram"},
      {"vocab_size", str(config.vocab_size)},
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
  std::vector<std::string> chunks;
  feed([&](std::string_view text) {
    while (!text.empty()) {
      chunks.emplace_back(text.substr(0, chunk_size(text)));
      text.remove_prefix(chunks.back().size());
    }
  });
  if (chunks.empty()) fail_without_text();
  ChunkIterator iterator(chunks);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
  if (!status.ok())
    throw Error(ErrorKind::kData, explain(status.error_message(), config.vocab_size));
  return model;
}

}  // namespace

std::vector<TokenizerFile> train_tokenizer(const TokenizerConfig& config, const Feed& feed) {
  const TokenizerTrainConfig& train = config.train;
  // Without bytes to fall back on, a character that is left out is lost.
  const double coverage = train.byte_fallback ? kCoverage : 1.0;
  const auto sentencepiece_files = [](std::string model) -> std::vector<TokenizerFile> {
    return {{std::string(Tokenizer::kSentencePieceModel), std::move(model)}};
  };
  switch (train.type) {
    case TokenizerType::kBpe:
      return sentencepiece_files(train_bpe_model(train, feed, coverage));
    case TokenizerType::kUnigram:
      return sentencepiece_files(train_unigram_model(train, feed, coverage));
    case TokenizerType::kByteBpe:
      return train_byte_bpe_tokenizer(config, feed);
  }
  throw Error(ErrorKind::kInternal, "tokenizer.train.type is one without a trainer");
}

}  // namespace lmtrain
