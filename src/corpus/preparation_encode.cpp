// The part of a preparation that writes token shards, alone or together with others.
#include "base/error.h"
#include "base/files/file.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "corpus/preparation.h"
#include "corpus/shards/block_exchange.h"
#include "corpus/shards/encode.h"
#include "corpus/sources/sources.h"

namespace lmtrain {

namespace fs = std::filesystem;

std::optional<PreparedData> Preparation::run(PreparationDivision& division) {
  keeps_ = division.keeps();
  fs::path tokenizer_path;
  const Tokenizer tokenizer = read_text(tokenizer_path);
  const std::string fingerprint = this->fingerprint(tokenizer);
  std::optional<FileLock> lock;
  if (keeps_) lock = cache_.try_lock("shards", fingerprint);
  keeps_ = lock.has_value();
  std::optional<PreparedData> data;
  if (keeps_) data = cache_.find_shards(fingerprint);
  const bool were_there = data.has_value();
  std::optional<ShardPair> shards;
  if (keeps_ && !were_there) shards.emplace(open_shards(tokenizer, fingerprint));
  division.agree(fingerprint, num_threads_, shards ? &*state_.tokens : nullptr);
  if (division.start()) {
    BlockExchange exchange = division.exchange(tokenizer.vocab_size());
    encode(tokenizer, *division.start(), shards ? &*shards : nullptr, &exchange);
    log_note("tokenized by " + exchange.describe_parts());
  }
  if (!keeps_) return std::nullopt;
  if (shards) data = finish_shards(*shards, fingerprint);
  return complete(std::move(*data), were_there, std::move(tokenizer_path));
}

// Goes on with the shards of the journal, or begins.
ShardPair Preparation::open_shards(const Tokenizer& tokenizer, const std::string& fingerprint) {
  const fs::path folder = cache_.shards_folder(fingerprint);
  lmtrain::create_directories(folder);
  if (state_.tokens && state_.tokens->fingerprint == fingerprint) {
    try {
      return {folder, tokenizer.vocab_size(), *state_.tokens};
    } catch (const Error& error) {
      log_warning(
          str("the interrupted tokenization cannot be continued and begins again: ", error.what()));
    }
  }
  state_.tokens.emplace().fingerprint = fingerprint;
  return {folder, tokenizer.vocab_size(), request_.eval || state_.held_out->holds_out_any()};
}

PreparedData Preparation::finish_shards(ShardPair& shards, const std::string& fingerprint) {
  PreparedData data;
  data.fingerprint = fingerprint;
  shards.finish(data);
  cache_.store_shards_info(data);
  return data;
}

void Preparation::encode(const Tokenizer& tokenizer, TokensPlace start, ShardPair* shards,
                         BlockExchange* exchange) {
  if (!tokenizer.why_slow().empty()) {
    log_note(str("the tokenizer is encoded by sentencepiece itself, which is slower: ",
                 tokenizer.why_slow()));
  }
  const DocumentEncoder encoder{tokenizer, request_.adds_bos, request_.adds_eos, num_threads_,
                                exchange};
  const auto pass = [&](bool in_eval, const Corpus& corpus, const HoldOut& held_out,
                        const std::string& action, const CorpusScan& scanned,
                        const std::string& pointer) {
    // Others may have to encode what the shards of this process have.
    const auto is_new = [&](const DocumentLocation& location) {
      return shards != nullptr && state_.tokens->in_eval == in_eval &&
             location >= state_.tokens->next;
    };
    const bool goes_on = start.in_eval == in_eval;
    Hasher content(goes_on ? start.content : Hasher().digest());
    encoder.encode(
        corpus, held_out, action,
        [&](const EncodedDocument& document) {
          const bool adds = is_new(document.location);
          if (adds) add(document, *shards);
          if (!document.whole) return;
          content.add(document.whole->low).add(document.whole->high);
          if (!adds) return;
          TokensProgress& progress = *state_.tokens;
          progress.next = {document.location.file, document.location.position + 1};
          if (!is_save_due()) return;
          progress.content = content.digest();
          shards->sync(progress);
          journal_.save(state_);
        },
        goes_on ? start.next : DocumentLocation{});
    if (content.digest() != scanned.content) fail_changed(pointer);
  };
  if (!start.in_eval) {
    pass(false, request_.train, *state_.held_out, "tokenizing", state_.train, kTrainPointer);
    if (!request_.eval) return;
    if (shards != nullptr && !state_.tokens->in_eval) {
      TokensProgress& progress = *state_.tokens;
      progress.in_eval = true;
      progress.next = {};
      progress.content = Hasher().digest();
    }
  }
  pass(true, *request_.eval, HoldOut(), "tokenizing evaluation text", state_.eval, "/data/eval");
}

void Preparation::add(const EncodedDocument& document, ShardPair& shards) {
  TokensProgress& progress = *state_.tokens;
  const Corpus& corpus = progress.in_eval ? *request_.eval : request_.train;
  if (progress.in_eval || document.held_out) {
    // The scan saw nothing to hold out.
    if (!shards.has_eval()) fail_changed(progress.in_eval ? "/data/eval" : kTrainPointer);
    shards.add_eval(document, corpus.files[document.location.file].source);
  } else {
    progress.files.begin_document(document.location.file, shards.num_train_documents());
    shards.add_train(document);
  }
}

}  // namespace lmtrain
