// train_tokenizer of tokenizer.h: sentencepiece's trainer on chunks of documents.
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "corpus/tokenizer.h"

namespace lmtrain {
namespace {

// The trainer numbers the characters of a word in 16 bits and aborts the process beyond.
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
  while (size > kLargestChunk - 4 && (static_cast<unsigned char>(rest[size]) & 0xC0U) == 0x80U)
    --size;
  return size;
}

// What the trainer calls sentences: chunks of documents that keep their newlines, so that pieces of
// newlines are learned.
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

// The trainer's words for a vocabulary that does not fit end in the limit.
std::string explain(const std::string& message, int64_t vocab_size) {
  const auto number_after = [&](std::string_view words) -> std::string {
    const size_t place = message.find(words);
    if (place == std::string::npos) return "";
    const size_t begin = place + words.size();
    return message.substr(begin, message.find_first_not_of("0123456789", begin) - begin);
  };
  const std::string begin = str("tokenizer.train.vocab_size ", vocab_size);
  if (const std::string most = number_after("value <= "); !most.empty()) {
    return str(begin, " is more than the text can fill: set it to at most ", most,
               ", or give more text");
  }
  if (const std::string least = number_after(str(vocab_size, " vs ")); !least.empty()) {
    return str(begin, " is less than the characters and bytes need: set it to at least ", least);
  }
  return str("sentencepiece cannot train a tokenizer: ", message);
}

}  // namespace

std::string train_tokenizer(const TokenizerTrainConfig& config,
                            const std::function<void(const TextSink&)>& feed) {
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", config.type},
      {"vocab_size", str(config.vocab_size)},
      {"byte_fallback", config.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"character_coverage", "0.9995"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"num_threads", "1"},
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
  if (chunks.empty())
    throw Error(ErrorKind::kData, "there is no text to train a tokenizer on; check data.train");
  ChunkIterator iterator(chunks);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
  if (!status.ok())
    throw Error(ErrorKind::kData, explain(status.error_message(), config.vocab_size));
  return model;
}

}  // namespace lmtrain
