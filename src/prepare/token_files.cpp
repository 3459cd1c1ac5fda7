#include "prepare/token_files.h"

#include <algorithm>
#include <ios>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "formats/token_file.h"
#include "prepare/eval_sets.h"
#include "prepare/given_tokenizer.h"
#include "prepare/hash_ordered_shard.h"
#include "prepare/source_runs.h"
#include "prepare/token_parts.h"
#include "text/byte_stream.h"
#include "text/content.h"
#include "text/format.h"
#include "text/id_rows.h"
#include "text/sample_shard.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Raise it whenever the same files and settings would give other shards.
constexpr uint64_t kTokenDataVersion = 2;

constexpr std::string_view kNumpyMagic = "\x93NUMPY";

struct Request {
  fs::path tokenizer_path;
  std::optional<Tokenizer> tokenizer;
  std::vector<SourceFile> train;
  std::vector<SourceFile> eval;
  TokenScanOptions reading;  // without the path of the copy
  bool has_eval = false;
  double eval_fraction = 0;    // 0 when `eval` is given
  bool has_eval_sets = false;  // PreparedData::eval_sources is wanted
};

fs::path index_beside(const SourceFile& file) {
  return fs::path(file.path).replace_extension(".idx");
}

// Any two bytes are an id: without this check, a README in a folder of token files, or a file in an
// unknown layout, would be read as ids.
void require_ids(const std::vector<SourceFile>& files, const std::vector<DataSourceConfig>& sources,
                 const std::string& pointer) {
  for (const SourceFile& file : files) {
    const std::string& entry = sources[static_cast<size_t>(file.source)].path;
    if (file.format != "tokens" || file.size == 0 || is_there(index_beside(file))) continue;
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

// Leaves out indices, which are read with their files, and finds the container of each file.
void take_token_files(std::vector<SourceFile>& files, const std::vector<DataSourceConfig>& sources,
                      const std::string& pointer) {
  std::erase_if(files, [](const SourceFile& file) { return is_token_file_index(file.path); });
  IdFiles containers;
  for (SourceFile& file : files) file.format = containers.container(file.path);
  require_ids(files, sources, pointer);
}

Request make_request(const Config& config, TokenSources sources) {
  if (!config.tokenizer.model) {
    throw Error(
        ErrorKind::kConfig,
        str("/tokenizer/model: ",
            config.data.format == DataFormat::kTokens ? "with data.format \"tokens\""
                                                      : "data.train holds token ids, and",
            " the tokenizer that made the ids must be given: its vocabulary, BOS and EOS are "
            "needed, and checkpoints carry it"));
  }
  Request request;
  request.tokenizer_path = given_tokenizer_path(config);
  request.tokenizer = Tokenizer::load(request.tokenizer_path);
  if (config.data.token_dtype != TokenDtype::kAuto)
    request.reading.id_bytes = config.data.token_dtype == TokenDtype::kUint16 ? 2 : 4;
  request.reading.text_field = config.data.text_field;
  request.reading.max_document = static_cast<uint64_t>(config.data.max_document);
  request.train = std::move(sources.train);
  take_token_files(request.train, config.data.train, kTrainPointer);
  request.has_eval = config.data.eval.has_value();
  if (request.has_eval) {
    request.eval = std::move(sources.eval);
    take_token_files(request.eval, *config.data.eval, "/data/eval");
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
  hasher.add(uint64_t{request.reading.id_bytes});
  // Files of bare ids have no columns, and keep the key that they had before tables were read.
  const auto is_table = [](const SourceFile& file) { return file.format != "tokens"; };
  if (std::any_of(request.train.begin(), request.train.end(), is_table) ||
      std::any_of(request.eval.begin(), request.eval.end(), is_table))
    hasher.add("tables").add(request.reading.text_field);
  const auto add_file = [&](const SourceFile& file) {
    hasher.add(file.path.native()).add(file.size).add(static_cast<uint64_t>(file.mtime_ns));
    hasher.add(static_cast<uint64_t>(file.source));
  };
  for (const auto* files : {&request.train, &request.eval}) {
    hasher.add(files->size());
    for (const SourceFile& file : *files) {
      add_file(file);
      const fs::path index =
          file.format == "litdata" ? file.path.parent_path() / kShardIndexName : index_beside(file);
      if (is_there(index)) add_file(source_file(index));
    }
  }
  if (request.has_eval_sets) hasher.add("eval sources");
  return hasher.digest().hex();
}

struct Side {
  int64_t documents = 0, tokens = 0, bytes = 0;
};

// Writes a shard that holds the ids itself.
void copy_documents(const fs::path& path, const Tokenizer& tokenizer, const ScannedTokens& scan,
                    const std::vector<ReferencedDocument>& documents) {
  TokenShardWriter writer(path, tokenizer.vocab_size());
  std::map<fs::path, MappedFile> open;  // all tables are in one file
  std::vector<int32_t> ids;
  for (const ReferencedDocument& document : documents) {
    throw_if_stopped();
    const ReferencedFile& file = scan.files[document.file];
    const MappedFile& mapped = open.try_emplace(file.path, file.path).first->second;
    ids.resize(document.num_tokens);
    copy_document_ids(mapped, file, document.begin, ids);
    writer.add_document(ids, document.raw_bytes);
  }
  writer.finish();
}

Side write_side(const fs::path& path, const Tokenizer& tokenizer, const ScannedTokens& scan,
                const std::vector<ReferencedDocument>& documents) {
  Side side;
  for (const ReferencedDocument& document : documents) {
    side.tokens += static_cast<int64_t>(document.num_tokens);
    side.bytes += static_cast<int64_t>(document.raw_bytes);
  }
  side.documents = static_cast<int64_t>(documents.size());
  if (scan.has_copies) {
    copy_documents(path, tokenizer, scan, documents);
  } else {
    write_token_reference(path, tokenizer.vocab_size(), scan.files, documents);
  }
  return side;
}

// The documents to evaluate on.
struct EvalSide {
  std::vector<ReferencedDocument> documents;
  std::vector<HashedSource> hashes;

  // Adds a document; document.file is an index into `files`.
  void add(const ReferencedDocument& document, uint64_t hash,
           const std::vector<SourceFile>& files) {
    documents.push_back(document);
    hashes.push_back({hash, files[document.file].source});
  }
  // Returns the documents by ascending hash, ties in the order of files, as for text.
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

CorpusCounts counts_of(const ScannedTokens& scan) {
  CorpusCounts counts;
  counts.documents = std::ssize(scan.documents);
  counts.empty_documents = scan.empty_documents;
  for (const ReferencedDocument& document : scan.documents)
    counts.bytes += static_cast<int64_t>(document.raw_bytes);
  counts.formats = scan.formats;
  counts.skipped = scan.skipped;
  return counts;
}

// Removes the copies of tables at the end.
class Copies {
 public:
  explicit Copies(fs::path train) : train_(std::move(train)), eval_(with_suffix(train_, ".eval")) {}
  ~Copies() {
    std::error_code ignored;
    fs::remove(train_, ignored);
    fs::remove(eval_, ignored);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  const fs::path& train() const { return train_; }
  const fs::path& eval() const { return eval_; }

 private:
  fs::path train_;
  fs::path eval_;
};

ScannedRequest scan(const Request& request, const Copies& copies) {
  ScannedRequest scanned;
  TokenScanOptions reading = request.reading;
  reading.copy = copies.train();
  scanned.train = scan_token_files(request.train, *request.tokenizer, reading, "reading tokens");
  if (request.has_eval) {
    reading.copy = copies.eval();
    scanned.eval =
        scan_token_files(request.eval, *request.tokenizer, reading, "reading evaluation tokens");
  }
  if (scanned.train.documents.empty()) {
    throw Error(
        ErrorKind::kData,
        str(kTrainPointer, ": the ", request.train.size(), " token file(s) hold no document",
            describe_oddities(counts_of(scanned.train)), "; check the paths"));
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
  hasher.add(train.content);
  hasher.add(uint64_t{request.has_eval}).add(eval.content);
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

// Logs, once, which columns beside the ids of tables are ignored.
void note_ignored(const ScannedRequest& scanned) {
  std::set<std::string> ignored = scanned.train.ignored_columns;
  ignored.insert(scanned.eval.ignored_columns.begin(), scanned.eval.ignored_columns.end());
  if (ignored.empty()) return;
  constexpr size_t kMostNames = 12;
  const std::vector<std::string> names(ignored.begin(), ignored.end());
  log_note(str("beside the ids of the tables, ignored: ", quoted_list(names, kMostNames),
               "; the target of each id is the next one of its row"));
}

// Stores the files of the train shard in `files`.
PreparedData make(const Request& request, const std::string& key, const Cache& cache,
                  const Copies& copies, std::vector<DocumentFile>& files) {
  const ScannedRequest scanned = scan(request, copies);
  const TokenSides sides = divide(request, scanned);
  const int64_t num_train = std::ssize(sides.train);
  files = sides.train_files.files(request.train, num_train);

  PreparedData data;
  data.fingerprint = sides.fingerprint;
  data.tokenizer_model = request.tokenizer_path;
  data.sources = sides.train_files.runs(request.train, num_train);
  data.eval_in_train = overlap_of(scanned.train, scanned.eval);
  data.train_text = counts_of(scanned.train);
  std::string line = "token files: data.train " + describe_formats(data.train_text.formats) +
                     describe_oddities(data.train_text);
  if (request.has_eval) {
    data.eval_text = counts_of(scanned.eval);
    line += "; data.eval " + describe_formats(data.eval_text.formats) +
            describe_oddities(data.eval_text);
  }
  log_note(line);
  note_ignored(scanned);

  const FileLock lock = cache.lock("shards", data.fingerprint);
  // A reference names files, so that equal ids in other files need another one.
  const bool are_copies =
      scanned.train.has_copies && (!request.has_eval || scanned.eval.has_copies);
  const std::string shards =
      are_copies ? data.fingerprint : Hasher().add(data.fingerprint).add(key).digest().hex();
  write_shards(cache.shards_folder(shards), request, scanned, sides, data);
  cache.store_shards_info(data);
  return data;
}

}  // namespace

TokenSources list_token_sources(const Config& config) {
  const DataConfig& data = config.data;
  TokenSources sources{list_source_files(data.train, kTrainPointer, data.format, Role::kTrain), {}};
  if (data.eval)
    sources.eval = list_source_files(*data.eval, "/data/eval", data.format, Role::kHeldOut);
  return sources;
}

bool are_id_tables(const std::vector<SourceFile>& files, const DataConfig& data) {
  IdFiles containers;
  for (const SourceFile& file : files) {
    const fs::path name = without_compression(file.path.filename());
    const std::string extension = name.extension().native();
    const bool may_be_table = extension == ".parquet" || extension == ".arrow" ||
                              extension == ".feather" || extension == ".mds" || extension == ".bin";
    if (!may_be_table || file.size == 0) continue;
    // A table that is compressed as a whole, or a pointer in its place, is refused elsewhere.
    if (name != file.path.filename() && extension != ".mds") continue;
    if (!foreign_file(file.path).empty()) continue;
    const std::string container = containers.container(file.path);
    if (container == "litdata") return true;
    if (container == "tokens") continue;
    const IdColumns columns = IdFiles::columns(file.path, container, data.text_field);
    if (columns.ids.empty() || !columns.has_text) return !columns.ids.empty();
    log_note(str(shown(file.path), " has text (", quote(data.text_field), ") and token ids (",
                 quote(columns.ids),
                 "); the text is taken, and data.format \"tokens\" takes the ids"));
    return false;
  }
  return false;
}

PreparedData prepare_token_files(const Config& config, const Cache& cache, TokenSources sources) {
  const Request request = make_request(config, std::move(sources));
  const std::string key = index_key(request);
  if (std::optional<PreparedData> found = cache.find_index(key)) return *found;
  const FileLock lock = cache.lock("index", key);
  const Copies copies(cache.journal_path(key).replace_extension(".ids"));
  // Another process may have made it while this one waited.
  if (std::optional<PreparedData> found = cache.find_index(key)) return *found;
  std::vector<DocumentFile> files;
  PreparedData data = make(request, key, cache, copies, files);
  cache.store_index(key, files, data);
  return data;
}

}  // namespace lmtrain
