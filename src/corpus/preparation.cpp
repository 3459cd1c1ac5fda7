#include "corpus/preparation.h"

#include <chrono>
#include <ios>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "corpus/encode.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Raised whenever the same text and settings would give other shards or another tokenizer.
constexpr uint64_t kDataVersion = 1;
// Raised whenever other files of the same list would be read, or otherwise.
constexpr uint64_t kFormatVersion = 1;

void add_fraction(Hasher& hasher, double fraction) { hasher.add(str(std::hexfloat, fraction)); }

void add_tokenizer_settings(Hasher& hasher, const TokenizerTrainConfig& train) {
  hasher.add(static_cast<uint64_t>(train.vocab_size))
      .add(train.type)
      .add(uint64_t{train.byte_fallback});
  hasher.add(static_cast<uint64_t>(train.sample));
}

void report(std::string_view what, const CorpusCounts& counts) {
  std::string line = str(what, ": ", counted(counts.documents, "document"), ", ",
                         format_bytes(static_cast<uint64_t>(counts.bytes)));
  line += str("; ", describe_formats(counts.formats));
  if (counts.empty_documents > 0)
    line += str(", ", counted(counts.empty_documents, "empty document"));
  if (counts.skipped.blank_lines > 0)
    line += str(", ", counts.skipped.blank_lines, " blank lines skipped");
  if (counts.skipped.nulls > 0) line += str(", ", counts.skipped.nulls, " nulls skipped");
  if (counts.nul_documents > 0)
    line += str(", ", counted(counts.nul_documents, "document"), " with NUL bytes");
  log_note(line);
  if (counts.invalid_documents > 0) {
    log_warning(str(counts.invalid_documents, " of ", counts.documents,
                    " documents are not valid UTF-8; each invalid byte is read as U+FFFD"));
  }
}

}  // namespace

std::string index_key(const PreparationRequest& request) {
  Hasher hasher;
  hasher.add(kDataVersion).add(kFormatVersion);
  const auto add_corpus = [&](const Corpus& corpus) {
    hasher.add(corpus.format).add(corpus.text_field).add(corpus.files.size());
    for (const SourceFile& file : corpus.files) {
      hasher.add(file.path.native()).add(file.size).add(static_cast<uint64_t>(file.mtime_ns));
      hasher.add(static_cast<uint64_t>(file.source));
    }
  };
  add_corpus(request.train);
  hasher.add(uint64_t{request.eval.has_value()});
  if (request.eval) add_corpus(*request.eval);
  add_fraction(hasher, request.eval_fraction);
  hasher.add(uint64_t{request.tokenizer.add_bos}).add(uint64_t{request.tokenizer.add_eos});
  hasher.add(request.given_tokenizer_path.native());
  if (request.given_tokenizer) {
    hasher.add(request.given_tokenizer->model_bytes());
  } else {
    add_tokenizer_settings(hasher, request.tokenizer.train);
  }
  return hasher.digest().hex();
}

Preparation::Preparation(const PreparationRequest& request, const Cache& cache, Journal& journal,
                         int num_threads)
    : request_(request),
      cache_(cache),
      journal_(journal),
      num_threads_(num_threads),
      state_(request.eval_fraction) {}

PreparedData Preparation::run() {
  if (journal_.load(state_)) log_note("going on with a preparation that was interrupted");
  scan();
  if (request_.eval) scan_eval();
  PreparedData data;
  const Tokenizer tokenizer = obtain_tokenizer(data.tokenizer_model);
  data.fingerprint = fingerprint(tokenizer);
  data.sources = state_.sources.runs(state_.split);
  const FileLock lock = cache_.lock("shards", data.fingerprint);
  if (std::optional<PreparedData> found = cache_.find_shards(data.fingerprint)) {
    found->tokenizer_model = data.tokenizer_model;
    found->sources = data.sources;
    cache_.clean_shards(data.fingerprint);
    return *found;
  }
  write_shards(tokenizer, data);
  cache_.clean_shards(data.fingerprint);
  return data;
}

void Preparation::scan() {
  const auto save_when_due = [this] {
    if (journal_.due()) journal_.save(state_);
  };
  scan_corpus(
      request_.train, "reading", state_.train,
      [this](uint64_t hash, uint64_t bytes, const SourceFile& file) {
        if (state_.split.observe(hash)) return;
        state_.sample.observe(hash, bytes);
        state_.sources.add(file.source, hash);
      },
      save_when_due);
  const CorpusCounts& counts = state_.train.counts;
  if (counts.documents == 0) {
    throw Error(ErrorKind::kData, str("/data/train: the ", request_.train.files.size(),
                                      " file(s) hold no document; check data.format and the "
                                      "paths"));
  }
  if (!state_.split.has_train()) {
    throw Error(ErrorKind::kData,
                str("/data/eval_fraction: ", request_.eval_fraction, " holds out all ",
                    counts.documents, " documents and leaves none to train on; lower it"));
  }
  report("train and held-out text", counts);
}

void Preparation::scan_eval() {
  scan_corpus(
      *request_.eval, "reading evaluation text", state_.eval,
      [](uint64_t, uint64_t, const SourceFile&) {},
      [this] {
        if (journal_.due()) journal_.save(state_);
      });
  if (state_.eval.counts.documents == 0)
    throw Error(ErrorKind::kData, "/data/eval: the files hold no document");
  report("evaluation text", state_.eval.counts);
}

Tokenizer Preparation::obtain_tokenizer(fs::path& path) const {
  if (request_.given_tokenizer) {
    path = request_.given_tokenizer_path;
    return Tokenizer(request_.given_tokenizer->model_bytes(), path.string());
  }
  Hasher hasher;
  hasher.add(kDataVersion).add(state_.train.content.low).add(state_.train.content.high);
  add_fraction(hasher, request_.eval_fraction);
  add_tokenizer_settings(hasher, request_.tokenizer.train);
  const std::string key = hasher.digest().hex();
  path = cache_.tokenizer_path(key);
  const FileLock lock = cache_.lock("tokenizer", key);
  if (std::optional<Tokenizer> found = cache_.find_tokenizer(key)) return std::move(*found);
  const auto begin = std::chrono::steady_clock::now();
  Tokenizer trained(train_on_sample(), path.string());
  cache_.store_tokenizer(key, trained);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  log_note(str("tokenizer  ", counted(trained.vocab_size(), "piece"), " in ",
               format_duration(elapsed.count())));
  return trained;
}

std::string Preparation::train_on_sample() const {
  const TokenizerTrainConfig& settings = request_.tokenizer.train;
  Sample sample = state_.sample;
  sample.choose(static_cast<uint64_t>(settings.sample));
  uint64_t left = static_cast<uint64_t>(settings.sample);
  return train_tokenizer(settings, [&](const TextSink& add) {
    Hasher content;
    {
      Progress progress("sampling text for the tokenizer", request_.train.total_bytes());
      request_.train.for_each(progress, [&](std::string_view text, const DocumentPlace&) {
        const Hash128 full_hash = hash128(text);
        content.add(full_hash.low).add(full_hash.high);
        const uint64_t hash = text_hash(full_hash);
        if (state_.split.is_eval(hash) || !sample.selects(hash)) return;
        add(text.substr(0, left));
        left -= std::min<uint64_t>(left, text.size());
      });
    }
    if (content.digest() != state_.train.content) fail_changed("/data/train");
    log_progress("training the tokenizer", /*keep=*/false);
  });
}

std::string Preparation::fingerprint(const Tokenizer& tokenizer) const {
  Hasher hasher;
  hasher.add(kDataVersion).add(state_.train.content.low).add(state_.train.content.high);
  hasher.add(uint64_t{request_.eval.has_value()})
      .add(state_.eval.content.low)
      .add(state_.eval.content.high);
  add_fraction(hasher, request_.eval_fraction);
  hasher.add(tokenizer.model_bytes());
  hasher.add(uint64_t{request_.tokenizer.add_bos}).add(uint64_t{request_.tokenizer.add_eos});
  return hasher.digest().hex();
}

// The text is read more than once; what was counted and split must be what is used afterwards.
void Preparation::fail_changed(const std::string& pointer) const {
  journal_.remove();
  throw Error(ErrorKind::kData, str(pointer,
                                    ": the text changed while it was prepared; run the command "
                                    "again once it is complete"));
}

// Goes on with the shards of the journal, or begins.
ShardPair Preparation::open_shards(const fs::path& folder, const Tokenizer& tokenizer,
                                   const std::string& fingerprint) {
  if (state_.tokens && state_.tokens->fingerprint == fingerprint) {
    try {
      return {folder, tokenizer.vocab_size(), *state_.tokens};
    } catch (const Error& error) {
      log_warning(
          str("the interrupted tokenization cannot be continued and begins again: ", error.what()));
    }
  }
  state_.tokens.emplace().fingerprint = fingerprint;
  return {folder, tokenizer.vocab_size(), request_.eval || state_.split.has_eval()};
}

void Preparation::write_shards(const Tokenizer& tokenizer, PreparedData& data) {
  const fs::path folder = cache_.shards_folder(data.fingerprint);
  lmtrain::create_directories(folder);
  ShardPair shards = open_shards(folder, tokenizer, data.fingerprint);
  encode(tokenizer, shards);
  shards.finish(data);
  cache_.store_shards_info(data);
}

void Preparation::encode(const Tokenizer& tokenizer, ShardPair& shards) {
  if (!tokenizer.why_slow().empty()) {
    log_note(str("the tokenizer is encoded by sentencepiece itself, which is slower: ",
                 tokenizer.why_slow()));
  }
  const DocumentEncoder encoder{tokenizer, request_.tokenizer.add_bos, request_.tokenizer.add_eos,
                                num_threads_};
  TokensProgress& progress = *state_.tokens;
  const auto pass = [&](const Corpus& corpus, const std::string& action, const CorpusScan& scanned,
                        const std::string& pointer) {
    Hasher content(progress.content);
    encoder.encode(
        corpus, action,
        [&](const EncodedDocument& document) {
          content.add(document.hash.low).add(document.hash.high);
          if (progress.in_eval || state_.split.is_eval(text_hash(document.hash))) {
            if (!shards.has_eval()) fail_changed(pointer);  // the scan saw nothing to hold out
            shards.add_eval(document);
          } else {
            shards.add_train(document);
          }
          progress.next = {document.place.file, document.place.position + 1};
          if (!journal_.due()) return;
          progress.content = content.digest();
          shards.sync(progress);
          journal_.save(state_);
        },
        progress.next);
    if (content.digest() != scanned.content) fail_changed(pointer);
  };
  if (!progress.in_eval) pass(request_.train, "tokenizing", state_.train, "/data/train");
  if (!request_.eval) return;
  if (!progress.in_eval) {
    progress.in_eval = true;
    progress.next = {};
    progress.content = Hasher().digest();
  }
  pass(*request_.eval, "tokenizing evaluation text", state_.eval, "/data/eval");
}

}  // namespace lmtrain
