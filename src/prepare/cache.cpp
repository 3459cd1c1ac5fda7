#include "prepare/cache.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "formats/token_shard.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Shards up to this size are read and checked in full at every start; of larger ones header and
// index, and each block when it is read.
constexpr uint64_t kVerifyUpTo = uint64_t{1} << 28;

// Returns the targets of the shard.
int64_t open_shard(const Cache& cache, const std::string& fingerprint, const fs::path& path,
                   int64_t documents, int64_t tokens) {
  require_there(path);
  // A version before 0.2 wrote no checksums of blocks. With them, each read checks its blocks.
  const bool has_sums = is_there(block_sums_path(path));
  const TokenShard shard(path, !has_sums || examine(path).size <= kVerifyUpTo);
  if (shard.num_documents() != documents || shard.num_tokens() != tokens) {
    throw Error(ErrorKind::kData, str(shown(path), " does not agree with its info.json"));
  }
  const int64_t targets = shard.count_targets();
  if (has_sums) return targets;
  // Where another process has the lock, it may be writing the checksums or the shard itself.
  const std::optional<FileLock> lock = cache.try_lock("shards", fingerprint);
  if (lock || shard.is_reference()) shard.write_missing_block_sums();
  return targets;
}

// Returns a hash of all files that decide the ids and the special tokens.
std::string content_hash(const std::vector<TokenizerFile>& files) {
  if (files.size() == 1) return hash128(files.front().bytes).hex();
  Hasher hasher;
  for (const TokenizerFile& file : files) hasher.add(file.name).add(file.bytes);
  return hasher.digest().hex();
}

// Returns the value that `read` finds in the cache. Logs a warning and returns nothing when the
// entry is broken or one of its files is missing. Throws Error(kIo) when the file system refuses,
// and Error(kMemory) for lack of memory: the entry may be whole.
template <class Value, class Read>
std::optional<Value> read_entry(const fs::path& path, const Read& read) {
  if (!is_there(path)) return std::nullopt;
  std::string problem;
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    problem = error.what();
  } catch (const nlohmann::json::exception& error) {
    problem = error.what();
  }
  log_warning(str("the cache entry ", shown(path), " is broken and made anew (", problem, ")"));
  return std::nullopt;
}

void write_json(const fs::path& path, Json json) {
  write_file_atomic(path, checked_json_text(std::move(json)));
}

// Enough for millions of files, each from another source than the one before.
constexpr uint64_t kLargestEntry = uint64_t{256} << 20;

Json read_json(const fs::path& path) {
  require_there(path);
  return read_checked_json(path, kLargestEntry);
}

Json formats_as_json(const FormatCounts& formats) {
  Json json = Json::object();
  for (const auto& [format, count] : formats)
    json[format] = {{"files", count.files}, {"documents", count.documents}};
  return json;
}

FormatCounts formats_from_json(const Json& json) {
  FormatCounts formats;
  for (const auto& [format, count] : json.items())
    formats[format] = {integer_in<int64_t>(count.at("files")),
                       integer_in<int64_t>(count.at("documents"))};
  return formats;
}

Json counts_as_json(const CorpusCounts& counts) {
  return {{"documents", counts.documents},
          {"bytes", counts.bytes},
          {"empty_documents", counts.empty_documents},
          {"invalid_documents", counts.invalid_documents},
          {"nul_documents", counts.nul_documents},
          {"blank_lines", counts.skipped.blank_lines},
          {"nulls", counts.skipped.nulls},
          {"json_lines", counts.skipped.json_lines},
          {"bad_lines", counts.skipped.bad_lines},
          {"first_bad_lines", counts.skipped.first_bad_lines},
          {"padding", counts.skipped.padding},
          {"empty_rows", counts.skipped.empty_rows},
          {"formats", formats_as_json(counts.formats)}};
}

CorpusCounts counts_from_json(const Json& json) {
  const auto number = [&](const char* key) { return integer_in<int64_t>(json.at(key)); };
  CorpusCounts counts{number("documents"), number("bytes"), number("empty_documents"),
                      number("invalid_documents"), number("nul_documents")};
  counts.skipped = {number("blank_lines"),
                    number("nulls"),
                    number("json_lines"),
                    number("bad_lines"),
                    json.at("first_bad_lines").get<std::vector<std::string>>(),
                    number("padding"),
                    number("empty_rows")};
  counts.formats = formats_from_json(json.at("formats"));
  return counts;
}

// The preparation logged this while it read the text; a start that finds the result logs it again.
void log_found(const PreparedData& data) {
  const auto describe = [](const CorpusCounts& counts) {
    return describe_formats(counts.formats) + describe_oddities(counts);
  };
  std::string line = "prepared before: data.train " + describe(data.train_text);
  if (!data.eval_text.formats.empty()) line += "; data.eval " + describe(data.eval_text);
  log_note(line);
  warn_of_text(data.train_text, kTrainPointer);
  warn_of_text(data.eval_text, "/data/eval");
}

// Throws unless the runs are as SourceRun says, for a shard of `documents` documents.
void check_sources(const std::vector<SourceRun>& sources, int64_t documents) {
  int64_t next = 0;  // the least that the next run may begin with
  for (const SourceRun& run : sources) {
    const bool begins_well = next == 0 ? run.first_document == 0 : run.first_document >= next;
    if (!begins_well || run.first_document >= documents || run.source < 0)
      throw Error(ErrorKind::kData, "what it says of sources contradicts the token shards");
    next = run.first_document + 1;
  }
  if (sources.empty()) throw Error(ErrorKind::kData, "it names no source");
}

void check_eval_sources(const std::vector<int32_t>& sources, int64_t documents) {
  const bool are_sources =
      std::all_of(sources.begin(), sources.end(), [](int32_t source) { return source >= 0; });
  if (!are_sources || std::ssize(sources) != documents) {
    throw Error(ErrorKind::kData,
                "what it says of the sources of held-out text contradicts the token shards");
  }
}

}  // namespace

Cache::Cache(fs::path folder) : folder_(std::move(folder)) {
  for (const char* name : {"tokenizers", "shards", "index", "locks"})
    lmtrain::create_directories(folder_ / name);
}

FileLock Cache::lock(const std::string& kind, const std::string& key) const {
  const fs::path path = lock_path(kind, key);
  FileLock lock;
  if (lock.try_acquire(path)) return lock;
  log_note(str("waiting for another process that prepares the same data (lock ", shown(path), ")"));
  while (!lock.try_acquire(path)) {
    throw_if_stopped();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

std::optional<FileLock> Cache::try_lock(const std::string& kind, const std::string& key) const {
  FileLock lock;
  if (!lock.try_acquire(lock_path(kind, key))) return std::nullopt;
  return lock;
}

fs::path Cache::lock_path(const std::string& kind, const std::string& key) const {
  return folder_ / "locks" / str(kind, "-", key);
}

fs::path Cache::tokenizer_path(const std::string& key, std::string_view name) const {
  return folder_ / "tokenizers" / key / name;
}
fs::path Cache::shards_folder(const std::string& fingerprint) const {
  return folder_ / "shards" / fingerprint;
}
fs::path Cache::index_path(const std::string& key) const {
  return folder_ / "index" / (key + ".json");
}
fs::path Cache::files_path(const std::string& key) const {
  return folder_ / "index" / (key + ".files");
}

std::optional<Tokenizer> Cache::find_tokenizer(const fs::path& path) const {
  return read_entry<Tokenizer>(path, [&] {
    const Json info = read_json(path.parent_path() / "info.json");
    std::vector<TokenizerFile> files = Tokenizer::read_files(path);
    if (content_hash(files) != info.at("hash").get<std::string>()) {
      throw Error(ErrorKind::kData, "its content does not agree with its info.json");
    }
    return Tokenizer(std::move(files), shown(path));
  });
}

void Cache::store_tokenizer(const fs::path& path, const Tokenizer& tokenizer) const {
  const std::vector<TokenizerFile>& files = tokenizer.files();
  lmtrain::create_directories(path.parent_path());
  write_json(path.parent_path() / "info.json",
             Json{{"hash", content_hash(files)}, {"vocab_size", tokenizer.vocab_size()}});
  // The first file is written last: where it is, the others are too.
  for (auto file = files.rbegin(); file != files.rend(); ++file)
    write_file_atomic(path.parent_path() / file->name, file->bytes);
}

std::optional<PreparedData> Cache::find_shards(const std::string& fingerprint) const {
  return find_shards(fingerprint, fingerprint);
}

std::optional<PreparedData> Cache::find_shards(const std::string& fingerprint,
                                               const std::string& key) const {
  const fs::path folder = shards_folder(key);
  const fs::path path = folder / "info.json";
  return read_entry<PreparedData>(path, [&] {
    const Json info = read_json(path);
    PreparedData data;
    data.fingerprint = fingerprint;
    data.train_shard = folder / "train.bin";
    const auto read_side = [&](const char* side, const fs::path& shard, int64_t& documents,
                               int64_t& tokens, int64_t& bytes, int64_t& targets) {
      const Json& counts = info.at(side);
      documents = integer_in<int64_t>(counts.at("documents"));
      tokens = integer_in<int64_t>(counts.at("tokens"));
      bytes = integer_in<int64_t>(counts.at("bytes"));
      targets = open_shard(*this, fingerprint, shard, documents, tokens);
    };
    read_side("train", data.train_shard, data.train_documents, data.train_tokens, data.train_bytes,
              data.train_targets);
    if (info.contains("eval")) {
      data.eval_shard = folder / "eval.bin";
      read_side("eval", *data.eval_shard, data.eval_documents, data.eval_tokens, data.eval_bytes,
                data.eval_targets);
    }
    return data;
  });
}

void Cache::store_shards_info(PreparedData& data) const {
  const auto targets_of = [](const fs::path& shard) {
    return TokenShard(shard, /*verify_tokens=*/false).count_targets();
  };
  data.train_targets = targets_of(data.train_shard);
  if (data.eval_shard) data.eval_targets = targets_of(*data.eval_shard);
  Json info;
  info["train"] = {{"documents", data.train_documents},
                   {"tokens", data.train_tokens},
                   {"bytes", data.train_bytes}};
  if (data.eval_shard) {
    info["eval"] = {{"documents", data.eval_documents},
                    {"tokens", data.eval_tokens},
                    {"bytes", data.eval_bytes}};
  }
  write_json(data.train_shard.parent_path() / "info.json", info);
}

void Cache::clean_shards(const std::string& fingerprint) const {
  const fs::path folder = shards_folder(fingerprint);
  if (is_link(folder)) return;  // what lies elsewhere may be somebody's
  const std::set<std::string> kept = {"train.bin", "train.bin.sums", "eval.bin", "eval.bin.sums",
                                      "info.json"};
  for (const std::string& name : list_folder(folder))
    if (kept.count(name) == 0) remove_tree(folder / name);
  sync_directory(folder);  // what was removed, here or by its writer, stays so
}

fs::path Cache::journal_path(const std::string& key) const {
  return folder_ / "index" / (key + ".journal");
}

std::optional<PreparedData> Cache::find_index(const std::string& key) const {
  const fs::path path = index_path(key);
  return read_entry<PreparedData>(path, [&]() -> PreparedData {
    const Json index = read_json(path);
    const fs::path model = index.at("tokenizer").get<std::string>();
    require_there(model);
    if (content_hash(Tokenizer::read_files(model)) !=
        index.at("tokenizer_hash").get<std::string>()) {
      throw Error(ErrorKind::kData, str(shown(model), " has changed"));
    }
    const auto fingerprint = index.at("fingerprint").get<std::string>();
    std::optional<PreparedData> data = find_shards(fingerprint, index.value("shards", fingerprint));
    if (!data) throw Error(ErrorKind::kData, "its token shards are gone");
    data->tokenizer_model = model;
    for (const Json& run : index.at("sources"))
      data->sources.push_back({integer_in<int64_t>(run.at(0)), integer_in<int32_t>(run.at(1))});
    check_sources(data->sources, data->train_documents);
    const Json& overlap = index.at("eval_in_train");
    data->eval_in_train = {integer_in<int64_t>(overlap.at("documents")),
                           integer_in<int64_t>(overlap.at("of_documents")),
                           integer_in<int64_t>(overlap.at("bytes")),
                           integer_in<int64_t>(overlap.at("of_bytes"))};
    if (index.contains("eval_sources")) {
      for (const Json& source : index.at("eval_sources"))
        data->eval_sources.push_back(integer_in<int32_t>(source));
      check_eval_sources(data->eval_sources, data->eval_documents);
    }
    data->train_text = counts_from_json(index.at("train_text"));
    data->eval_text = counts_from_json(index.at("eval_text"));
    data->document_files = files_path(key);
    log_found(*data);
    return *data;
  });
}

void Cache::store_index(const std::string& key, const std::vector<DocumentFile>& files,
                        PreparedData& data) const {
  data.document_files = files_path(key);
  write_document_files(data.document_files, files);
  Json sources = Json::array();
  for (const SourceRun& run : data.sources) sources.push_back({run.first_document, run.source});
  const Overlap& overlap = data.eval_in_train;
  Json index = {{"fingerprint", data.fingerprint},
                {"shards", data.train_shard.parent_path().filename().string()},
                {"tokenizer", data.tokenizer_model.native()},
                {"tokenizer_hash", content_hash(Tokenizer::read_files(data.tokenizer_model))},
                {"sources", std::move(sources)},
                {"train_text", counts_as_json(data.train_text)},
                {"eval_text", counts_as_json(data.eval_text)},
                {"eval_in_train",
                 {{"documents", overlap.documents},
                  {"of_documents", overlap.of_documents},
                  {"bytes", overlap.bytes},
                  {"of_bytes", overlap.of_bytes}}}};
  if (!data.eval_sources.empty()) index["eval_sources"] = data.eval_sources;
  write_json(index_path(key), std::move(index));
}

}  // namespace lmtrain
