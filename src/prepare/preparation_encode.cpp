// The part of a preparation that writes token shards.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "prepare/encode.h"
#include "prepare/preparation.h"
#include "text/sources.h"

namespace lmtrain {

namespace fs = std::filesystem;

// Goes on with the shards of the journal, or begins.
ShardPair Preparation::open_shards(const Tokenizer& tokenizer, const std::string& fingerprint) {
  const fs::path folder = cache_.shards_folder(fingerprint);
  lmtrain::create_directories(folder);
  if (state_.tokens && state_.tokens->fingerprint == fingerprint) {
    try {
      return {folder, tokenizer.vocab_size(), *state_.tokens};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;  // the files may be whole
      log_warning(
          str("the interrupted tokenization cannot be continued and begins again: ", error.what()));
    }
  }
  state_.tokens.emplace().fingerprint = fingerprint;
  return {folder, tokenizer.vocab_size(), request_.eval || state_.held_out->holds_out_any()};
}

PreparedData Preparation::write_shards(const Tokenizer& tokenizer, const std::string& fingerprint) {
  ShardPair shards = open_shards(tokenizer, fingerprint);
  encode(tokenizer, shards);
  PreparedData data;
  data.fingerprint = fingerprint;
  shards.finish(data);
  cache_.store_shards_info(data);
  return data;
}

void Preparation::encode(const Tokenizer& tokenizer, ShardPair& shards) {
  if (!tokenizer.why_slow().empty()) {
    log_note(str("the tokenizer is encoded by sentencepiece itself, which is slower: ",
                 tokenizer.why_slow()));
  }
  const DocumentEncoder encoder{tokenizer, request_.adds_bos, request_.adds_eos, num_threads_};
  TokensProgress& progress = *state_.tokens;
  const auto pass = [&](DocumentBatches& documents, const HoldOut& held_out,
                        const std::string& action, const CorpusScan& scanned,
                        const std::string& pointer) {
    Hasher content(progress.content);
    const DocumentLocation from = progress.next;
    encoder.encode(
        documents, held_out, action,
        [&](const EncodedDocument& document) {
          add(document, shards);
          if (!document.whole) return;
          content.add(document.whole->low).add(document.whole->high);
          progress.next = {document.location.file, document.location.position + 1};
          if (!journal_.due()) return;
          progress.content = content.digest();
          shards.sync(progress);
          journal_.save(state_);
        },
        from);
    if (content.digest() != scanned.content) fail_changed(pointer);
  };
  if (!progress.in_eval) {
    pass(train_, *state_.held_out, "tokenizing", state_.train, kTrainPointer);
    if (!request_.eval) return;
    progress.in_eval = true;
    progress.next = {};
    progress.content = Hasher().digest();
  }
  pass(*eval_, HoldOut(), "tokenizing evaluation text", state_.eval, "/data/eval");
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
