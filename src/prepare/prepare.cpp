#include "prepare/prepare.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/token_shard.h"
#include "prepare/cache.h"
#include "prepare/encode.h"
#include "prepare/eval_sets.h"
#include "prepare/given_tokenizer.h"
#include "prepare/preparation.h"
#include "prepare/token_files.h"
#include "text/format.h"
#include "text/readers.h"
#include "text/sources.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

Corpus make_corpus(const DataConfig& data, const std::vector<DataSourceConfig>& sources,
                   const std::string& pointer, Role role) {
  return {list_source_files(sources, pointer, data.format, role), data.format, data.text_field,
          static_cast<uint64_t>(data.max_document), data.on_bad_line};
}

// `opened` is the given tokenizer, if it was opened before.
PreparationRequest request_of(const Config& config, std::optional<Tokenizer> opened) {
  PreparationRequest request;
  request.tokenizer = config.tokenizer;
  request.adds_bos = config.tokenizer.add_bos.value();
  request.adds_eos = config.tokenizer.add_eos.value();
  if (config.tokenizer.model) {
    request.given_tokenizer_path = given_tokenizer_path(config);
    request.given_tokenizer =
        opened ? std::move(opened) : Tokenizer::load(request.given_tokenizer_path);
    request.given_tokenizer->require_special_ids(request.adds_bos, request.adds_eos);
  }
  request.train = make_corpus(config.data, config.data.train, kTrainPointer, Role::kTrain);
  if (config.data.eval) {
    request.eval = make_corpus(config.data, *config.data.eval, "/data/eval", Role::kHeldOut);
  } else {
    request.eval_fraction = config.data.eval_fraction;
  }
  request.has_eval_sets = has_eval_sets(config.data);
  return request;
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

// The loss of a token varies about as much as its mean, so that the mean over n tokens has a
// relative standard error of about 1/sqrt(n).
void warn_about_little_held_out(const PreparedData& data) {
  constexpr double kToTellApart = 0.01;
  if (!data.eval_shard) return;
  const double error = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(data.eval_tokens, 1)));
  if (error <= kToTellApart) return;
  log_warning(str(
      "held-out text of ", data.eval_tokens, " tokens: its loss has a standard error of ", "about ",
      printed("%.1f", 100 * error), " % (1/sqrt(tokens)), so a difference of ",
      "1 % cannot be told from chance; give more text in data.eval, or raise data.eval_fraction"));
}

void warn_about_overlap(const Overlap& overlap) {
  if (overlap.documents == 0) return;
  const double share = static_cast<double>(overlap.bytes) /
                       static_cast<double>(std::max<int64_t>(overlap.of_bytes, 1));
  log_warning(str(overlap.documents, " of the ", overlap.of_documents, " evaluation documents (",
                  printed("%.1f", 100 * share), " % of their bytes) are in data.train too: the ",
                  "loss on them is that of text trained on; take them out of one of the two"));
}

// Finds the prepared data. A preparation that was killed at its end has left its journal, which is
// removed unless the cache cannot be written.
std::optional<PreparedData> find_prepared(const Cache& cache, const std::string& key) {
  std::optional<PreparedData> data = cache.find_index(key);
  for (const char* suffix : {"", ".tmp"}) {
    std::error_code ignored;
    if (data) fs::remove(cache.journal_path(key) += suffix, ignored);
  }
  return data;
}

// Whether a file of the format may hold ids instead of text.
bool may_be_ids(DataFormat format) {
  return format == DataFormat::kAuto || format == DataFormat::kParquet ||
         format == DataFormat::kArrow || format == DataFormat::kMds;
}

PreparedData prepare_text(const Config& config, std::optional<Tokenizer> opened, const Cache& cache,
                          int num_threads, const PrepareOptions& options) {
  PreparationRequest request = request_of(config, std::move(opened));
  if (may_be_ids(config.data.format) && are_id_tables(request.train.files, config.data)) {
    log_note("documents  are token ids, and are trained on as they are: no BOS or EOS is added");
    return prepare_token_files(
        config, cache,
        {std::move(request.train.files),
         request.eval ? std::move(request.eval->files) : std::vector<SourceFile>()});
  }
  const std::string key = index_key(request);
  std::optional<PreparedData> data = find_prepared(cache, key);
  if (data) return *data;
  const FileLock lock = cache.lock("index", key);
  data = find_prepared(cache, key);  // another process may have made it while this one waited
  if (data) return *data;
  const auto decide = [](Corpus& corpus, const std::string& pointer,
                         const std::vector<DataSourceConfig>& sources) {
    decide_formats(corpus.files, corpus.format, corpus.text_field, pointer, sources);
  };
  decide(request.train, kTrainPointer, config.data.train);
  if (request.eval) decide(*request.eval, "/data/eval", *config.data.eval);
  Journal journal(cache.journal_path(key), options);
  Preparation preparation(request, cache, journal, num_threads);
  data = preparation.run();
  cache.store_index(key, preparation.files(), *data);
  journal.remove();
  return *data;
}

Cache open_cache(const Config& config) {
  try {
    return Cache(absolute_path(config.data.cache_dir));
  } catch (const Error& error) {
    throw Error(error.kind(), str("/data/cache_dir: ", error.what()));
  }
}

}  // namespace

PreparedData prepare_data(const Config& given, int num_threads, const PrepareOptions& options) {
  Config config = given;
  std::optional<Tokenizer> opened = resolve_document_ends(config);
  const Cache cache = open_cache(config);
  PreparedData data = config.data.format == DataFormat::kTokens
                          ? prepare_token_files(config, cache, list_token_sources(config))
                          : prepare_text(config, std::move(opened), cache, num_threads, options);
  require_full_sets(config.data, data);
  log_summary(data);
  warn_about_overlap(data.eval_in_train);
  warn_about_little_held_out(data);
  return data;
}

void tokenize_paths(const std::vector<std::string>& paths, const DataConfig& reading,
                    const fs::path& tokenizer_model, bool add_bos, bool add_eos,
                    const fs::path& shard, int num_threads) {
  std::vector<DataSourceConfig> sources;
  sources.reserve(paths.size());
  for (const std::string& path : paths) sources.push_back({path, 1.0});
  Corpus corpus = make_corpus(reading, sources, "", Role::kHeldOut);
  decide_formats(corpus.files, corpus.format, corpus.text_field, "");
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_model);
  TokenShardWriter writer(shard, tokenizer.vocab_size());
  const DocumentEncoder encoder{tokenizer, add_bos, add_eos, num_threads};
  FormatCounts formats;
  int64_t bytes = 0;
  for (const SourceFile& file : corpus.files) ++formats[file.format].files;
  const auto add = [&](const EncodedDocument& document) {
    writer.add_document(document.ids, document.bytes);
    bytes += document.bytes;
    ++formats[corpus.files[document.location.file].format].documents;
  };
  DocumentBatches documents(corpus);
  NoDocuments skipped;
  try {
    skipped = encoder.encode(documents, HoldOut(), "tokenizing", add);
  } catch (const BadLine& line) {  // `eval` has no option that leaves out lines
    throw Error(line.kind(), line.problem());
  }
  require_few_bad_lines(skipped, "--data");
  if (skipped.bad_lines > 0) log_warning("--data: " + describe_bad_lines(skipped));
  log_note("evaluation text: " + describe_formats(formats));
  if (writer.num_documents() == 0) {
    throw Error(ErrorKind::kData,
                str(join(paths, ", "), ": no document in it; check the paths and the format"));
  }
  if (bytes == 0) {
    throw Error(ErrorKind::kData, str(join(paths, ", "),
                                      ": all documents are empty; check the paths and the format"));
  }
  writer.finish();
}

}  // namespace lmtrain
