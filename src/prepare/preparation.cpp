#include "prepare/preparation.h"

#include <algorithm>
#include <chrono>
#include <ios>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "prepare/content_blocks.h"
#include "text/sources.h"

namespace lmtrain {

ShardPair::ShardPair(const std::filesystem::path& folder, int64_t vocab_size, bool has_eval)
    : train_path_(folder / "train.bin"),
      eval_path_(folder / "eval.bin"),
      train_(std::make_unique<TokenShardWriter>(train_path_, vocab_size)) {
  if (has_eval) eval_ = std::make_unique<HashOrderedShardWriter>(eval_path_, vocab_size);
}

ShardPair::ShardPair(const std::filesystem::path& folder, int64_t vocab_size,
                     const TokensProgress& progress)
    : train_path_(folder / "train.bin"),
      eval_path_(folder / "eval.bin"),
      train_(std::make_unique<TokenShardWriter>(train_path_, vocab_size, progress.train)),
      train_bytes_(progress.train_bytes),
      eval_bytes_(progress.eval_bytes) {
  if (progress.eval)
    eval_ = std::make_unique<HashOrderedShardWriter>(eval_path_, vocab_size, *progress.eval);
}

void ShardPair::add_train(const EncodedDocument& document) {
  train_->add_document(document.ids, document.bytes);
  train_bytes_ += static_cast<int64_t>(document.bytes);
}

void ShardPair::add_eval(const EncodedDocument& document, int32_t source) {
  eval_->add_document(document, source);
  eval_bytes_ += static_cast<int64_t>(document.bytes);
}

void ShardPair::sync(TokensProgress& progress) {
  progress.train = train_->sync();
  progress.train_bytes = train_bytes_;
  if (eval_) progress.eval = eval_->sync();
  progress.eval_bytes = eval_bytes_;
}

void ShardPair::finish(PreparedData& data) {
  data.train_shard = train_path_;
  data.train_documents = train_->num_documents();
  data.train_tokens = train_->num_tokens();
  data.train_bytes = train_bytes_;
  train_->finish();
  if (!eval_) return;
  data.eval_shard = eval_path_;
  data.eval_documents = eval_->num_documents();
  data.eval_tokens = eval_->num_tokens();
  data.eval_bytes = eval_bytes_;
  data.eval_sources = eval_->finish();
}

namespace {

namespace fs = std::filesystem;

// Raise it whenever the same text and settings would give other shards or another tokenizer.
constexpr uint64_t kDataVersion = 1;
// Raise it whenever the same list would give other files, or files would be read in another way.
constexpr uint64_t kFormatVersion = 1;

// A corpus with less text is read once; of larger ones each pass reads the files.
constexpr uint64_t kMostKept = uint64_t{128} << 20;

void add_fraction(Hasher& hasher, double fraction) { hasher.add(str(std::hexfloat, fraction)); }

void add_tokenizer_settings(Hasher& hasher, const TokenizerTrainConfig& train) {
  hasher.add(static_cast<uint64_t>(train.vocab_size.value_or(0)))
      .add(name_of(train.type))
      .add(uint64_t{train.byte_fallback});
  hasher.add(static_cast<uint64_t>(train.sample));
}

void report(std::string_view what, const CorpusCounts& counts, const std::string& pointer) {
  std::string line = str(what, ": ", counted(counts.documents, "document"), ", ",
                         format_bytes(static_cast<uint64_t>(counts.bytes)));
  log_note(str(line, "; ", describe_formats(counts.formats), describe_oddities(counts)));
  warn_of_text(counts, pointer);
}

void report_held_out(const HoldOut& held_out, double fraction) {
  uint64_t block = 0;
  for (const HoldOutRule& rule : held_out.rules())
    if (!rule.chosen.empty()) block = std::max(block, rule.block);
  if (block == 0 && held_out.share() <= fraction) return;
  std::string line =
      str("held-out text: about ", printed("%.2g %%", 100 * held_out.share()), " of each source");
  if (held_out.share() > fraction)
    line += str(" instead of ", printed("%.2g %%", 100 * fraction), ", to have enough of it");
  if (block > 0) {
    line += str(", in blocks of up to about ", format_bytes(block),
                ", since whole documents are too few or too long for that");
  }
  log_note(line);
}

}  // namespace

std::string index_key(const PreparationRequest& request) {
  Hasher hasher;
  hasher.add(kDataVersion).add(kFormatVersion).add(Cache::kIndexVersion);
  const auto add_corpus = [&](const Corpus& corpus) {
    hasher.add(name_of(corpus.format)).add(corpus.text_field).add(corpus.files.size());
    hasher.add(name_of(corpus.on_bad_line));
    for (const SourceFile& file : corpus.files) {
      hasher.add(file.path.native()).add(file.size).add(static_cast<uint64_t>(file.mtime_ns));
      hasher.add(static_cast<uint64_t>(file.source));
    }
  };
  add_corpus(request.train);
  hasher.add(uint64_t{request.eval.has_value()});
  if (request.eval) add_corpus(*request.eval);
  add_fraction(hasher, request.eval_fraction);
  hasher.add(uint64_t{request.adds_bos}).add(uint64_t{request.adds_eos});
  hasher.add(request.given_tokenizer_path.native());
  if (request.given_tokenizer) {
    for (const TokenizerFile& file : request.given_tokenizer->files()) hasher.add(file.bytes);
  } else {
    add_tokenizer_settings(hasher, request.tokenizer.train);
  }
  if (request.has_eval_sets) hasher.add("eval sources");
  return hasher.digest().hex();
}

Preparation::Preparation(const PreparationRequest& request, const Cache& cache, Journal& journal,
                         int num_threads)
    : request_(request),
      cache_(cache),
      journal_(journal),
      num_threads_(num_threads),
      train_(request.train, kMostKept) {
  if (request.eval) eval_.emplace(*request.eval, kMostKept);
}

PreparedData Preparation::run() {
  if (journal_.load(state_)) log_note("going on with a preparation that was interrupted");
  if (request_.eval) scan_eval();
  scan();
  choose_held_out();
  fs::path tokenizer_path;
  const Tokenizer tokenizer = obtain_tokenizer(tokenizer_path);
  const std::string fingerprint = this->fingerprint(tokenizer);
  const FileLock lock = cache_.lock("shards", fingerprint);
  std::optional<PreparedData> data = cache_.find_shards(fingerprint);
  const bool were_there = data.has_value();
  if (!were_there) data = write_shards(tokenizer, fingerprint);
  return complete(std::move(*data), were_there, std::move(tokenizer_path));
}

PreparedData Preparation::complete(PreparedData data, bool were_there, fs::path tokenizer_path) {
  FileTally tally;
  if (were_there) {
    std::vector<HashedSource> held_out;
    tally = count_documents(held_out);
    if (request_.eval && request_.has_eval_sets) held_out = list_eval_documents();
    data.eval_sources = sources_in_hash_order(held_out);
  } else {
    tally = state_.tokens->files;
  }
  if (!request_.has_eval_sets) data.eval_sources.clear();
  cache_.clean_shards(data.fingerprint);
  data.tokenizer_model = std::move(tokenizer_path);
  data.sources = tally.runs(request_.train.files, data.train_documents);
  data.eval_in_train = state_.overlap.result();
  data.train_text = state_.train.counts;
  data.eval_text = state_.eval.counts;
  files_ = tally.files(request_.train.files, data.train_documents);
  return data;
}

void Preparation::scan_eval() {
  scan_corpus(
      *eval_, "reading evaluation text", num_threads_, state_.eval,
      [this](uint64_t hash, uint64_t bytes, const SourceFile&) {
        state_.overlap.add_eval(hash, bytes);
      },
      [this] {
        if (journal_.due()) journal_.save(state_);
      });
  if (state_.eval.counts.documents == 0)
    throw Error(ErrorKind::kData, "/data/eval: the files hold no document");
  require_few_bad_lines(state_.eval.counts.skipped, "/data/eval");
  report("evaluation text", state_.eval.counts, "/data/eval");
}

void Preparation::scan() {
  const auto save_when_due = [this] {
    if (journal_.due()) journal_.save(state_);
  };
  const std::vector<SourceFile>& files = request_.train.files;
  const bool are_entries_compared =
      request_.eval_fraction > 0 &&
      std::any_of(files.begin(), files.end(),
                  [](const SourceFile& file) { return file.source > 0; });
  scan_corpus(
      train_, "reading", num_threads_, state_.train,
      [this, are_entries_compared](uint64_t hash, uint64_t bytes, const SourceFile& file) {
        state_.sources.add(file.source, hash, bytes);
        if (are_entries_compared) state_.common.add(file.source, hash, bytes);
        state_.overlap.add_train(hash);
        if (!is_below(hash, request_.eval_fraction)) state_.sample.observe(hash, bytes);
      },
      save_when_due);
  const CorpusCounts& counts = state_.train.counts;
  require_few_bad_lines(counts.skipped, kTrainPointer);
  if (counts.documents == 0) {
    throw Error(ErrorKind::kData, str(kTrainPointer, ": the ", request_.train.files.size(),
                                      " file(s) hold no document; check data.format and the "
                                      "paths"));
  }
  report(request_.eval ? "training text" : "train and held-out text", counts, kTrainPointer);
}

void Preparation::choose_held_out() {
  if (state_.held_out) return;
  const std::vector<SourceShape>& shapes = state_.sources.shapes();
  HoldOut held_out(request_.eval_fraction, shapes, state_.common.groups(shapes.size()),
                   kHoldOutBytes);
  held_out.choose([&](const auto& wanted, const auto& add) { list_blocks(held_out, wanted, add); });
  note_joined_sources(held_out);
  report_held_out(held_out, request_.eval_fraction);
  state_.held_out = std::move(held_out);
}

// Calls `add` for each block of the sources for which `wanted` is true.
void Preparation::list_blocks(
    const HoldOut& held_out, const std::function<bool(int32_t source)>& wanted,
    const std::function<void(int32_t source, uint64_t hash, uint64_t size)>& add) {
  struct Block {
    int32_t source;
    uint64_t hash;
    uint64_t size;
  };
  using Blocks = std::vector<Block>;
  const std::vector<SourceFile>& files = request_.train.files;
  const auto blocks_of = [&](DocumentBatch& batch) {
    batch.complete(request_.train);
    Blocks blocks;
    for (size_t i = 0; i < batch.size(); ++i) {
      const int32_t source = files[batch.location(i).file].source;
      if (!wanted(source)) continue;
      const std::string_view text = batch.document(i);
      size_t begin = 0;
      for (const size_t end : block_ends(text, held_out.rule_of(source).block)) {
        const Hash128 hash = hash128(text.substr(begin, end - begin));
        blocks.push_back({source, text_hash(hash), end - begin});
        begin = end;
      }
    }
    return blocks;
  };
  BatchWork<Blocks> work(num_threads_, [&](const Blocks& blocks) {
    for (const Block& block : blocks) add(block.source, block.hash, block.size);
  });
  uint64_t total = 0;
  for (const SourceFile& file : files) total += wanted(file.source) ? file.size : 0;
  ProgressBar progress("choosing held-out text", total);
  train_.for_each(
      progress,
      [&](const BatchPointer& batch) {
        work.push(batch->bytes(), [&blocks_of, batch] { return blocks_of(*batch); });
      },
      {}, [&](const SourceFile& file) { return wanted(file.source); });
  work.finish();
}

Tokenizer Preparation::obtain_tokenizer(fs::path& path) {
  if (request_.given_tokenizer) {
    path = request_.given_tokenizer_path;
    return *request_.given_tokenizer;
  }
  Hasher hasher;
  hasher.add(kDataVersion).add(state_.train.content);
  add_fraction(hasher, request_.eval_fraction);
  state_.held_out->add_to(hasher, request_.eval_fraction, state_.sources.order());
  add_tokenizer_settings(hasher, request_.tokenizer.train);
  const bool gives_json = request_.tokenizer.train.type == TokenizerType::kByteBpe;
  if (gives_json) hasher.add(uint64_t{request_.adds_bos});  // its post-processor has it
  const std::string key = hasher.digest().hex();
  path = cache_.tokenizer_path(
      key, gives_json ? Tokenizer::kTokenizerJson : Tokenizer::kSentencePieceModel);
  const FileLock lock = cache_.lock("tokenizer", key);
  if (std::optional<Tokenizer> found = cache_.find_tokenizer(path)) return std::move(*found);
  const auto begin = std::chrono::steady_clock::now();
  Tokenizer trained(train_on_sample(), path.string());
  cache_.store_tokenizer(path, trained);
  log_note(str("tokenizer  ", counted(trained.vocab_size(), "piece"), " in ",
               format_duration(seconds_since(begin))));
  return trained;
}

std::vector<TokenizerFile> Preparation::train_on_sample() {
  uint64_t left = static_cast<uint64_t>(request_.tokenizer.train.sample);
  Sample sample = state_.sample;
  sample.choose(left);
  const auto feed = [&](const TextSink& add) {
    Hasher content;
    {
      ProgressBar progress("sampling text for the tokenizer", request_.train.total_bytes());
      train_.for_each_document(
          progress, [&](std::string_view text, const DocumentLocation& location) {
            const Hash128 hash = hash128(text);
            content.add(hash);
            if (!sample.selects(text_hash(hash))) return;
            const int32_t source = request_.train.files[location.file].source;
            for (const TextPart& part : cut_document(*state_.held_out, source, text, hash)) {
              if (part.held_out) continue;
              add(part.text.substr(0, left));
              left -= std::min<uint64_t>(left, part.text.size());
            }
          });
    }
    if (content.digest() != state_.train.content) fail_changed(kTrainPointer);
    log_progress("training the tokenizer", /*keep=*/false);
  };
  return train_tokenizer(request_.tokenizer, feed, num_threads_);
}

std::string Preparation::fingerprint(const Tokenizer& tokenizer) const {
  Hasher hasher;
  hasher.add(kDataVersion).add(state_.train.content);
  hasher.add(uint64_t{request_.eval.has_value()}).add(state_.eval.content);
  add_fraction(hasher, request_.eval_fraction);
  state_.held_out->add_to(hasher, request_.eval_fraction, state_.sources.order());
  for (const TokenizerFile& file : tokenizer.files()) hasher.add(file.bytes);
  hasher.add(uint64_t{request_.adds_bos}).add(uint64_t{request_.adds_eos});
  return hasher.digest().hex();
}

// The text is read more than once, and each pass must see the text that the first one counted.
void Preparation::fail_changed(const std::string& pointer) const {
  journal_.remove();
  throw Error(ErrorKind::kData, str(pointer,
                                    ": the text changed while it was prepared; run the command "
                                    "again once it is complete"));
}

FileTally Preparation::count_documents(std::vector<HashedSource>& held_out) {
  FileTally tally;
  int64_t documents = 0;
  Hasher content;
  ProgressBar progress("counting documents", request_.train.total_bytes());
  train_.for_each_document(progress, [&](std::string_view text, const DocumentLocation& location) {
    const Hash128 hash = hash128(text);
    content.add(hash);
    const int32_t source = request_.train.files[location.file].source;
    for (const TextPart& part : cut_document(*state_.held_out, source, text, hash)) {
      if (!part.held_out) {
        tally.begin_document(location.file, documents++);
      } else if (request_.has_eval_sets) {
        held_out.push_back({text_hash(hash128(part.text)), source});
      }
    }
  });
  if (content.digest() != state_.train.content) fail_changed(kTrainPointer);
  return tally;
}

std::vector<HashedSource> Preparation::list_eval_documents() {
  std::vector<HashedSource> documents;
  Hasher content;
  ProgressBar progress("counting evaluation documents", request_.eval->total_bytes());
  eval_->for_each_document(progress, [&](std::string_view text, const DocumentLocation& location) {
    const Hash128 hash = hash128(text);
    content.add(hash);
    documents.push_back({text_hash(hash), request_.eval->files[location.file].source});
  });
  if (content.digest() != state_.eval.content) fail_changed("/data/eval");
  return documents;
}

}  // namespace lmtrain
