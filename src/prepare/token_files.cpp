#include "prepare/token_files.h"

#include <ios>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/token_file.h"
#include "prepare/eval_sets.h"
#include "prepare/given_tokenizer.h"
#include "prepare/hash_ordered_shard.h"
#include "prepare/source_runs.h"
#include "prepare/token_parts.h"
#include "text/content.h"
#include "text/format.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Raised whenever the same files and settings would give other shards.
constexpr uint64_t kTokenDataVersion = 2;

constexpr std::string_view kNumpyMagic = "\x93NUMPY";

struct Request {
  fs::path tokenizer_path;
  std::optional<Tokenizer> tokenizer;
  std::vector<SourceFile> train;
  std::vector<SourceFile> eval;
  uint32_t id_bytes = 0;  // as data.token_dtype says; 0 where it says nothing
  bool has_eval = false;
  double eval_fraction = 0;    // 0 when `eval` is given
  bool has_eval_sets = false;  // PreparedData::eval_sources is wanted
};

fs::path index_beside(const SourceFile& file) {
  return fs::path(file.path).replace_extension(".idx");
}

// Any two bytes are an id, so that a README in a folder of token files would be read as one, and a
// file in an unknown layout as ids.
void require_ids(const std::vector<SourceFile>& files, const std::vector<DataSourceConfig>& sources,
                 const std::string& pointer) {
  for (const SourceFile& file : files) {
    const std::string& entry = sources[static_cast<size_t>(file.source)].path;
    if (file.size == 0 || is_there(index_beside(file))) continue;
    const MappedFile mapped(file.path);
    if (mapped.bytes().starts_with(kNumpyMagic)) continue;
    const std::string other = other_than_ids(mapped.bytes());
    const bool is_named = absolute_path(entry) == file.path;
    if (!other.empty() && (is_named || other != "text")) {
      throw Error(ErrorKind::kData,
                  str(pointer, ": ", shown(file.path), " holds no token ids that are read, but is ",
                      other, is_named ? "" : "; leave it out by a pattern, such as DIR/*.bin"));
    }
    if (is_named || (other.empty() && look_at(file.path, "text").kind == Content::Kind::kBinary))
      continue;
    throw Error(ErrorKind::kData,
                str(pointer, ": ", shown(file.path), " is found by \"", entry,
                    "\" and holds no token ids, but text or a table; name the token files by a "
                    "pattern, such as DIR/*.bin, or this file by itself if it is one after all"));
  }
}

std::vector<SourceFile> list_token_files(const std::vector<DataSourceConfig>& sources,
                                         const std::string& pointer, Role role) {
  std::vector<SourceFile> files = list_source_files(sources, pointer, DataFormat::kTokens, role);
  std::erase_if(files, [](const SourceFile& file) { return is_token_file_index(file.path); });
  require_ids(files, sources, pointer);
  return files;
}

Request make_request(const Config& config) {
  if (!config.tokenizer.model) {
    throw Error(
        ErrorKind::kConfig,
        "/tokenizer/model: with data.format \"tokens\" the tokenizer that made the ids must "
        "be given: its vocabulary, BOS and EOS are needed, and checkpoints carry it");
  }
  Request request;
  request.tokenizer_path = given_tokenizer_path(config);
  request.tokenizer = Tokenizer::load(request.tokenizer_path);
  if (config.data.token_dtype != TokenDtype::kAuto)
    request.id_bytes = config.data.token_dtype == TokenDtype::kUint16 ? 2 : 4;
  request.train = list_token_files(config.data.train, kTrainPointer, Role::kTrain);
  request.has_eval = config.data.eval.has_value();
  if (request.has_eval) {
    request.eval = list_token_files(*config.data.eval, "/data/eval", Role::kHeldOut);
  } else {
    request.eval_fraction = config.data.eval_fraction;
  }
  request.has_eval_sets = has_eval_sets(config.data);
  return request;
}

void add_settings(Hasher& hasher, const Request& request) {
  hasher.add("token files").add(kTokenDataVersion);
  hasher.add(str(std::hexfloat, request.eval_fraction));
  for (const TokenizerFile& file : request.tokenizer->files()) hasher.add(file.bytes);
}

// A key of the request that needs no ids to be read.
std::string index_key(const Request& request) {
  Hasher hasher;
  add_settings(hasher, request);
  hasher.add(Cache::kIndexVersion).add(request.tokenizer_path.native());
  hasher.add(uint64_t{request.id_bytes});
  const auto add_file = [&](const SourceFile& file) {
    hasher.add(file.path.native()).add(file.size).add(static_cast<uint64_t>(file.mtime_ns));
    hasher.add(static_cast<uint64_t>(file.source));
  };
  for (const auto* files : {&request.train, &request.eval}) {
    hasher.add(files->size());
    for (const SourceFile& file : *files) {
      add_file(file);
      const fs::path index = index_beside(file);
      if (is_there(index)) add_file(source_file(index, 1.0, 0));
    }
  }
  if (request.has_eval_sets) hasher.add("eval sources");
  return hasher.digest().hex();
}

struct Side {
  int64_t documents = 0, tokens = 0, bytes = 0;
};

Side write_side(const fs::path& path, const Tokenizer& tokenizer, const ScannedTokens& scan,
                const std::vector<ReferencedDocument>& documents) {
  Side side;
  for (const ReferencedDocument& document : documents) {
    side.tokens += static_cast<int64_t>(document.num_tokens);
    side.bytes += static_cast<int64_t>(document.raw_bytes);
  }
  side.documents = static_cast<int64_t>(documents.size());
  write_token_reference(path, tokenizer.vocab_size(), scan.files, documents);
  return side;
}

// The documents to evaluate on.
struct EvalSide {
  std::vector<ReferencedDocument> documents;
  std::vector<HashedSource> hashes;

  // Adds a document of one of these files.
  void add(const ReferencedDocument& document, uint64_t hash,
           const std::vector<SourceFile>& files) {
    documents.push_back(document);
    hashes.push_back({hash, files[document.file].source});
  }
  // Documents in the order of their hash, ties in the order of files, as those of text.
  std::vector<ReferencedDocument> in_hash_order() const {
    std::vector<ReferencedDocument> sorted;
    sorted.reserve(documents.size());
    for (const size_t document : hash_order(hashes)) sorted.push_back(documents[document]);
    return sorted;
  }
};

Overlap overlap_of(const ScannedTokens& train, const ScannedTokens& eval) {
  OverlapFinder finder;
  for (size_t i = 0; i < eval.hashes.size(); ++i)
    finder.add_eval(eval.hashes[i], eval.documents[i].raw_bytes);
  for (const uint64_t hash : train.hashes) finder.add_train(hash);
  return finder.result();
}

struct ScannedRequest {
  ScannedTokens train;
  ScannedTokens eval;  // empty where there is no `data.eval`
};

ScannedRequest scan(const Request& request) {
  ScannedRequest scanned;
  scanned.train =
      scan_token_files(request.train, *request.tokenizer, request.id_bytes, "reading tokens");
  if (request.has_eval) {
    scanned.eval = scan_token_files(request.eval, *request.tokenizer, request.id_bytes,
                                    "reading evaluation tokens");
  }
  if (scanned.train.documents.empty()) {
    throw Error(ErrorKind::kData, str(kTrainPointer, ": the ", request.train.size(),
                                      " token file(s) hold no document; check the paths"));
  }
  if (request.has_eval && scanned.eval.documents.empty())
    throw Error(ErrorKind::kData, "/data/eval: the token files hold no document");
  return scanned;
}

// The documents to train on and those to evaluate on.
struct TokenSides {
  std::vector<ReferencedDocument> train;
  FileTally train_files;
  EvalSide eval;
  std::string fingerprint;  // of the shards that they give
};

TokenSides divide(const Request& request, const ScannedRequest& scanned) {
  TokenSides sides;
  const auto& [train, eval] = scanned;
  Hasher hasher;
  add_settings(hasher, request);
  hasher.add(train.content.low).add(train.content.high);
  hasher.add(uint64_t{request.has_eval}).add(eval.content.low).add(eval.content.high);
  hold_out_tokens(train, request.train, *request.tokenizer, request.eval_fraction, hasher,
                  [&](const TokenPart& part) {
                    if (part.held_out) {
                      sides.eval.add(part.range, part.hash, request.train);
                    } else {
                      sides.train_files.begin_document(part.range.file, std::ssize(sides.train));
                      sides.train.push_back(part.range);
                    }
                  });
  for (size_t i = 0; i < eval.documents.size(); ++i)
    sides.eval.add(eval.documents[i], eval.hashes[i], request.eval);
  sides.fingerprint = hasher.digest().hex();
  return sides;
}

// Writes the shards and says in `data` where they are and what they hold.
void write_shards(const fs::path& folder, const Request& request, const ScannedRequest& scanned,
                  const TokenSides& sides, PreparedData& data) {
  lmtrain::create_directories(folder);
  data.train_shard = folder / "train.bin";
  const Side train = write_side(data.train_shard, *request.tokenizer, scanned.train, sides.train);
  data.train_documents = train.documents;
  data.train_tokens = train.tokens;
  data.train_bytes = train.bytes;
  if (sides.eval.documents.empty()) return;
  data.eval_shard = folder / "eval.bin";
  const Side eval =
      write_side(*data.eval_shard, *request.tokenizer,
                 request.has_eval ? scanned.eval : scanned.train, sides.eval.in_hash_order());
  data.eval_documents = eval.documents;
  data.eval_tokens = eval.tokens;
  data.eval_bytes = eval.bytes;
  if (request.has_eval_sets) data.eval_sources = sources_in_hash_order(sides.eval.hashes);
}

CorpusCounts counts_of(const std::vector<SourceFile>& files, const ScannedTokens& scan) {
  CorpusCounts counts;
  counts.documents = std::ssize(scan.documents);
  counts.empty_documents = scan.empty_documents;
  for (const ReferencedDocument& document : scan.documents)
    counts.bytes += static_cast<int64_t>(document.raw_bytes);
  counts.formats["tokens"] = {std::ssize(files), counts.documents};
  return counts;
}

// Stores the files of the train shard in `files`.
PreparedData make(const Request& request, const Cache& cache, std::vector<DocumentFile>& files) {
  const ScannedRequest scanned = scan(request);
  const TokenSides sides = divide(request, scanned);
  const int64_t num_train = std::ssize(sides.train);
  files = sides.train_files.files(request.train, num_train);

  PreparedData data;
  data.fingerprint = sides.fingerprint;
  data.tokenizer_model = request.tokenizer_path;
  data.sources = sides.train_files.runs(request.train, num_train);
  data.eval_in_train = overlap_of(scanned.train, scanned.eval);
  data.train_text = counts_of(request.train, scanned.train);
  std::string line = "token files: data.train " + describe_formats(data.train_text.formats) +
                     describe_oddities(data.train_text);
  if (request.has_eval) {
    data.eval_text = counts_of(request.eval, scanned.eval);
    line += "; data.eval " + describe_formats(data.eval_text.formats) +
            describe_oddities(data.eval_text);
  }
  log_note(line);

  const FileLock lock = cache.lock("shards", data.fingerprint);
  write_shards(cache.shards_folder(data.fingerprint), request, scanned, sides, data);
  cache.store_shards_info(data);
  return data;
}

}  // namespace

PreparedData prepare_token_files(const Config& config, const Cache& cache) {
  const Request request = make_request(config);
  const std::string key = index_key(request);
  if (std::optional<PreparedData> found = cache.find_index(key)) return *found;
  const FileLock lock = cache.lock("index", key);
  // Another process may have made it while this one waited.
  if (std::optional<PreparedData> found = cache.find_index(key)) return *found;
  std::vector<DocumentFile> files;
  PreparedData data = make(request, cache, files);
  cache.store_index(key, files, data);
  return data;
}

}  // namespace lmtrain
