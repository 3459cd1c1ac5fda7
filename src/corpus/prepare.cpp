#include "corpus/prepare.h"

#include <algorithm>
#include <cmath>
#include <ios>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "corpus/cache.h"
#include "corpus/corpus.h"
#include "corpus/documents.h"
#include "corpus/encode.h"
#include "corpus/glob.h"
#include "corpus/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Raised whenever the same text and settings would give other shards or another tokenizer.
constexpr uint64_t kDataVersion = 1;

// All that decides the result, with the files found but not read.
struct Request {
  TokenizerConfig tokenizer;
  std::optional<Tokenizer> given_tokenizer;
  fs::path given_tokenizer_path;
  Corpus train;
  std::optional<Corpus> eval;
  double eval_fraction = 0;  // 0 when `eval` is given
};

Corpus make_corpus(const DataConfig& data, const std::vector<DataSourceConfig>& sources,
                   const std::string& pointer) {
  Corpus corpus{list_source_files(sources, pointer), data.format, data.text_field};
  for (const SourceFile& file : corpus.files) {
    resolve_format(file.path, data.format);
    if (file.weight == 1.0) continue;
    throw Error(ErrorKind::kConfig,
                str(pointer, ": weight ", file.weight, " of ", file.path.string(),
                    ": this version takes every source once an epoch; leave weight at 1"));
  }
  return corpus;
}

Request make_request(const Config& config) {
  Request request;
  request.tokenizer = config.tokenizer;
  if (config.tokenizer.model) {
    request.given_tokenizer_path =
        fs::absolute(expand_variables(*config.tokenizer.model, "/tokenizer/model: "))
            .lexically_normal();
    if (!fs::exists(request.given_tokenizer_path)) {
      throw Error(ErrorKind::kUsage,
                  str("/tokenizer/model: ", request.given_tokenizer_path.string(),
                      " does not exist; give a sentencepiece .model file, or null to train one"));
    }
    request.given_tokenizer = Tokenizer::load(request.given_tokenizer_path);
    request.given_tokenizer->require_special_ids(config.tokenizer.add_bos,
                                                 config.tokenizer.add_eos);
  }
  request.train = make_corpus(config.data, config.data.train, "/data/train");
  if (config.data.eval) {
    request.eval = make_corpus(config.data, *config.data.eval, "/data/eval");
  } else {
    request.eval_fraction = config.data.eval_fraction;
  }
  return request;
}

[[noreturn]] void fail_changed(const std::string& pointer) {
  throw Error(ErrorKind::kData, str(pointer,
                                    ": the text changed while it was prepared; run the command "
                                    "again once it is complete"));
}

// The text is read more than once; what was counted and split must be what is used afterwards.
void require_unchanged(const CorpusScan& scan, const Hash128& content, const std::string& pointer) {
  if (scan.content != content) fail_changed(pointer);
}

void add_fraction(Hasher& hasher, double fraction) { hasher.add(str(std::hexfloat, fraction)); }

void add_tokenizer_settings(Hasher& hasher, const TokenizerTrainConfig& train) {
  hasher.add(static_cast<uint64_t>(train.vocab_size))
      .add(train.type)
      .add(uint64_t{train.byte_fallback});
  hasher.add(static_cast<uint64_t>(train.sample));
}

// What stands for the request without reading any text.
std::string index_key(const Request& request) {
  Hasher hasher;
  hasher.add(kDataVersion);
  const auto add_corpus = [&](const Corpus& corpus) {
    hasher.add(corpus.format).add(corpus.text_field).add(corpus.files.size());
    for (const SourceFile& file : corpus.files) {
      hasher.add(file.path.native()).add(file.size).add(static_cast<uint64_t>(file.mtime_ns));
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

// The passes over the text for one request.
class Preparation {
 public:
  Preparation(const Request& request, const Cache& cache, int num_threads)
      : request_(request),
        cache_(cache),
        num_threads_(num_threads),
        split_(request.eval_fraction) {}

  PreparedData run() {
    scan();
    PreparedData data;
    const Tokenizer tokenizer = obtain_tokenizer(data.tokenizer_model);
    data.fingerprint = fingerprint(tokenizer);
    const FileLock lock = cache_.lock("shards", data.fingerprint);
    if (std::optional<PreparedData> found = cache_.find_shards(data.fingerprint)) {
      found->tokenizer_model = data.tokenizer_model;
      return *found;
    }
    write_shards(tokenizer, data);
    return data;
  }

 private:
  void scan() {
    train_scan_ = scan_corpus(request_.train, "reading", [this](uint64_t hash, uint64_t bytes) {
      if (!split_.observe(hash)) sample_.observe(hash, bytes);
    });
    if (train_scan_.counts.documents == 0) {
      throw Error(ErrorKind::kData,
                  str("/data/train: the ", request_.train.files.size(),
                      " file(s) hold no document; check data.format and the paths"));
    }
    if (!split_.has_train()) {
      throw Error(ErrorKind::kData, str("/data/eval_fraction: ", request_.eval_fraction,
                                        " holds out all ", train_scan_.counts.documents,
                                        " documents and leaves none to train on; lower it"));
    }
    report("train and held-out text", train_scan_.counts);
    if (!request_.eval) return;
    eval_scan_ = scan_corpus(*request_.eval, "reading evaluation text", [](uint64_t, uint64_t) {});
    if (eval_scan_.counts.documents == 0)
      throw Error(ErrorKind::kData, "/data/eval: the files hold no document");
    report("evaluation text", eval_scan_.counts);
  }

  static void report(std::string_view what, const CorpusCounts& counts) {
    std::string line = str(what, ": ", counted(counts.documents, "document"), ", ",
                           format_bytes(static_cast<uint64_t>(counts.bytes)));
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

  Tokenizer obtain_tokenizer(fs::path& path) const {
    if (request_.given_tokenizer) {
      path = request_.given_tokenizer_path;
      return Tokenizer(request_.given_tokenizer->model_bytes(), path.string());
    }
    Hasher hasher;
    hasher.add(kDataVersion).add(train_scan_.content.low).add(train_scan_.content.high);
    add_fraction(hasher, request_.eval_fraction);
    add_tokenizer_settings(hasher, request_.tokenizer.train);
    const std::string key = hasher.digest().hex();
    path = cache_.tokenizer_path(key);
    const FileLock lock = cache_.lock("tokenizer", key);
    if (std::optional<Tokenizer> found = cache_.find_tokenizer(key)) return std::move(*found);
    Tokenizer trained(train_on_sample(), path.string());
    cache_.store_tokenizer(key, trained);
    return trained;
  }

  std::string train_on_sample() const {
    const TokenizerTrainConfig& settings = request_.tokenizer.train;
    Sample sample = sample_;
    sample.choose(static_cast<uint64_t>(settings.sample));
    uint64_t left = static_cast<uint64_t>(settings.sample);
    return train_tokenizer(settings, [&](const TextSink& add) {
      Progress progress("sampling text for the tokenizer", request_.train.total_bytes());
      Hasher content;
      request_.train.for_each(progress, [&](std::string_view text, const DocumentPlace&) {
        const Hash128 full_hash = hash128(text);
        content.add(full_hash.low).add(full_hash.high);
        const uint64_t hash = text_hash(full_hash);
        if (split_.is_eval(hash) || !sample.selects(hash)) return;
        add(text.substr(0, left));
        left -= std::min<uint64_t>(left, text.size());
      });
      require_unchanged(train_scan_, content.digest(), "/data/train");
    });
  }

  std::string fingerprint(const Tokenizer& tokenizer) const {
    Hasher hasher;
    hasher.add(kDataVersion).add(train_scan_.content.low).add(train_scan_.content.high);
    hasher.add(uint64_t{request_.eval.has_value()})
        .add(eval_scan_.content.low)
        .add(eval_scan_.content.high);
    add_fraction(hasher, request_.eval_fraction);
    hasher.add(tokenizer.model_bytes());
    hasher.add(uint64_t{request_.tokenizer.add_bos}).add(uint64_t{request_.tokenizer.add_eos});
    return hasher.digest().hex();
  }

  void write_shards(const Tokenizer& tokenizer, PreparedData& data) const;

  const Request& request_;
  const Cache& cache_;
  int num_threads_;
  Split split_;
  Sample sample_;
  CorpusScan train_scan_;
  CorpusScan eval_scan_;
};

void Preparation::write_shards(const Tokenizer& tokenizer, PreparedData& data) const {
  const fs::path folder = cache_.shards_folder(data.fingerprint);
  lmtrain::create_directories(folder);
  data.train_shard = folder / "train.bin";
  TokenShardWriter train(data.train_shard, tokenizer.vocab_size());
  std::optional<HashOrderedShardWriter> eval;
  if (request_.eval || split_.has_eval()) eval.emplace(folder / "eval.bin", tokenizer.vocab_size());
  if (!tokenizer.why_slow().empty()) {
    log_note(str("the tokenizer is encoded by sentencepiece itself, which is slower: ",
                 tokenizer.why_slow()));
  }
  const DocumentEncoder encoder{tokenizer, request_.tokenizer.add_bos, request_.tokenizer.add_eos,
                                num_threads_};
  const auto add_eval = [&](const EncodedDocument& document) {
    if (!eval) fail_changed("/data/train");  // the scan saw nothing to hold out
    eval->add_document(document);
    data.eval_bytes += static_cast<int64_t>(document.bytes);
  };
  Hasher content;
  encoder.encode(request_.train, "tokenizing", [&](const EncodedDocument& document) {
    content.add(document.hash.low).add(document.hash.high);
    if (split_.is_eval(text_hash(document.hash))) {
      add_eval(document);
    } else {
      train.add_document(document.ids, document.bytes);
      data.train_bytes += static_cast<int64_t>(document.bytes);
    }
  });
  require_unchanged(train_scan_, content.digest(), "/data/train");
  if (request_.eval) {
    Hasher eval_content;
    encoder.encode(*request_.eval, "tokenizing evaluation text",
                   [&](const EncodedDocument& document) {
                     eval_content.add(document.hash.low).add(document.hash.high);
                     add_eval(document);
                   });
    require_unchanged(eval_scan_, eval_content.digest(), "/data/eval");
  }
  data.train_documents = train.num_documents();
  data.train_tokens = train.num_tokens();
  train.finish();
  if (eval) {
    data.eval_shard = folder / "eval.bin";
    data.eval_documents = eval->num_documents();
    data.eval_tokens = eval->num_tokens();
    eval->finish();
  }
  cache_.store_shards_info(data);
}

std::string describe_side(std::string_view name, int64_t documents, int64_t tokens, int64_t bytes) {
  const double bytes_per_token =
      static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(tokens, 1));
  return str(name, " ", counted(documents, "document"), ", ",
             format_bytes(static_cast<uint64_t>(bytes)), ", ",
             format_count(static_cast<double>(tokens)), " tokens (",
             std::round(100 * bytes_per_token) / 100, " bytes a token)");
}

void log_summary(const PreparedData& data) {
  std::string line =
      describe_side("data: train", data.train_documents, data.train_tokens, data.train_bytes);
  if (data.eval_shard) {
    line += describe_side("; held out", data.eval_documents, data.eval_tokens, data.eval_bytes);
  } else {
    line += "; nothing held out";
  }
  log_note(line);
}

}  // namespace

PreparedData prepare_data(const Config& config, int num_threads) {
  const Request request = make_request(config);
  const Cache cache(fs::absolute(expand_variables(config.data.cache_dir, "/data/cache_dir: "))
                        .lexically_normal());
  const std::string key = index_key(request);
  std::optional<PreparedData> data = cache.find_index(key);
  if (!data) {
    const FileLock lock = cache.lock("index", key);
    data = cache.find_index(key);  // another process may have made it while this one waited
    if (!data) {
      data = Preparation(request, cache, num_threads).run();
      cache.store_index(key, *data);
    }
  }
  log_summary(*data);
  return *data;
}

void tokenize_paths(const std::vector<std::string>& paths, const std::string& format,
                    const std::string& text_field, const fs::path& tokenizer_model, bool add_bos,
                    bool add_eos, const fs::path& shard, int num_threads) {
  std::vector<DataSourceConfig> sources;
  sources.reserve(paths.size());
  for (const std::string& path : paths) sources.push_back({path, 1.0});
  const Corpus corpus{list_source_files(sources, ""), format, text_field};
  for (const SourceFile& file : corpus.files) resolve_format(file.path, format);
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_model);
  TokenShardWriter writer(shard, tokenizer.vocab_size());
  const DocumentEncoder encoder{tokenizer, add_bos, add_eos, num_threads};
  encoder.encode(corpus, "tokenizing", [&](const EncodedDocument& document) {
    writer.add_document(document.ids, document.bytes);
  });
  if (writer.num_documents() == 0) {
    throw Error(ErrorKind::kData,
                str(join(paths, ", "), ": no document in it; check the paths and the format"));
  }
  writer.finish();
}

}  // namespace lmtrain
