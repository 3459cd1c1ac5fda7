#include "prepare/journal.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/json_fields.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

// Raise it when the fields or their meaning change; a journal of another version counts as broken.
constexpr int kVersion = 6;

constexpr uint64_t kLargest = uint64_t{1} << 30;

using Fields = JsonFields<Json>;
using SourceOfDocument = std::pair<uint64_t, int32_t>;
using OverlapEntry = std::pair<uint64_t, OverlapFinder::Entry>;

}  // namespace

static void list_fields(Fields& json, Hash128& hash) {
  json.element(hash.low);
  json.element(hash.high);
}

static void list_fields(Fields& json, FileSum& sum) {
  json.element(sum.size);
  json.element(sum.crc);
}

static void list_fields(Fields& json, DocumentLocation& location) {
  json.element(location.file);
  json.element(location.position);
}

static void list_fields(Fields& json, FormatCount& count) {
  json.element(count.files);
  json.element(count.documents);
}

static void list_fields(Fields& json, CorpusScan& scan) {
  CorpusCounts& counts = scan.counts;
  json.field("next_file", scan.next_file);
  json.field("content", scan.content);
  json.field("documents", counts.documents);
  json.field("bytes", counts.bytes);
  json.field("empty_documents", counts.empty_documents);
  json.field("invalid_documents", counts.invalid_documents);
  json.field("nul_documents", counts.nul_documents);
  json.field("blank_lines", counts.skipped.blank_lines);
  json.field("nulls", counts.skipped.nulls);
  json.field("json_lines", counts.skipped.json_lines);
  json.field("bad_lines", counts.skipped.bad_lines);
  json.field("first_bad_lines", counts.skipped.first_bad_lines);
  json.field("formats", counts.formats);
}

// Stores only the ranges with bytes: range, bytes, range, bytes, ...
static void list_fields(Fields& json, Sample& sample) {
  std::vector<uint64_t> bytes = sample.bytes();
  std::vector<uint64_t> pairs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != 0) pairs.insert(pairs.end(), {i, bytes[i]});
  }
  json.whole(pairs);
  std::fill(bytes.begin(), bytes.end(), 0);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) bytes.at(pairs[i]) = pairs[i + 1];
  sample.load(std::move(bytes));
}

static void list_fields(Fields& json, SourceShape& shape) {
  json.element(shape.documents);
  json.element(shape.size);
  json.element(shape.largest);
  json.element(shape.smallest_hash);
  json.element(shape.largest_hash);
}

static void list_fields(Fields& json, SourceShapes& sources) {
  std::vector<SourceShape> shapes = sources.shapes();
  Hash128 order = sources.order();
  int32_t last = sources.last_source();
  json.field("shapes", shapes);
  json.field("order", order);
  json.field("last", last);
  sources.load(std::move(shapes), order, last);
}

static void list_fields(Fields& json, SourceOfDocument& document) {
  json.element(document.first);
  json.element(document.second);
}

static void list_fields(Fields& json, CommonDocuments& common) {
  std::vector<SourceOfDocument> documents(common.sources_of_documents().begin(),
                                          common.sources_of_documents().end());
  std::vector<int32_t> lower = common.lower();
  json.field("documents", documents);
  json.field("lower", lower);
  common.load({documents.begin(), documents.end()}, std::move(lower));
}

static void list_fields(Fields& json, OverlapEntry& entry) {
  json.element(entry.first);
  json.element(entry.second.documents);
  json.element(entry.second.bytes);
  json.element(entry.second.is_found);
}

static void list_fields(Fields& json, OverlapFinder& overlap) {
  std::vector<OverlapEntry> entries(overlap.entries().begin(), overlap.entries().end());
  json.whole(entries);
  overlap.load({entries.begin(), entries.end()});
}

static void list_fields(Fields& json, HoldOutRule& rule) {
  auto fraction_bits = std::bit_cast<uint64_t>(rule.fraction);
  json.element(rule.block);
  json.element(fraction_bits);
  json.element(rule.chosen);
  rule.fraction = std::bit_cast<double>(fraction_bits);
}

static void list_fields(Fields& json, HoldOut& held_out) {
  std::vector<size_t> rules_of_sources = held_out.rules_of_sources();
  std::vector<HoldOutRule> rules = held_out.rules();
  json.field("rules_of_sources", rules_of_sources);
  json.field("rules", rules);
  held_out.load(std::move(rules_of_sources), std::move(rules));
}

static void list_fields(Fields& json, ShardProgress& shard) {
  json.field("documents", shard.num_documents);
  json.field("tokens", shard.num_tokens);
  json.field("tokens_crc", shard.tokens_crc);
  json.field("tokens_file", shard.tokens);
  json.field("index_file", shard.index);
}

static void list_fields(Fields& json, FileTally& files) {
  std::vector<int64_t> first_documents = files.first_documents();
  json.whole(first_documents);
  files.load(std::move(first_documents));
}

static void list_fields(Fields& json, TokensProgress& tokens) {
  json.field("fingerprint", tokens.fingerprint);
  json.field("in_eval", tokens.in_eval);
  json.field("next", tokens.next);
  json.field("content", tokens.content);
  json.field("train", tokens.train);
  json.field("train_bytes", tokens.train_bytes);
  json.field("eval_bytes", tokens.eval_bytes);
  json.field("files", tokens.files);
  if (json.has("eval", tokens.eval)) {
    json.field("eval", tokens.eval->shard);
    json.field("eval_hashes", tokens.eval->hashes);
  }
}

static void list_fields(Fields& json, PreparationState& state) {
  json.field("train", state.train);
  json.field("eval", state.eval);
  json.field("sample", state.sample);
  json.field("sources", state.sources);
  json.field("common", state.common);
  json.field("overlap", state.overlap);
  json.optional_field("held_out", state.held_out);
  json.optional_field("tokens", state.tokens);
}

Journal::Journal(std::filesystem::path path, const PrepareOptions& options)
    : path_(std::move(path)), options_(options) {}

bool Journal::load(PreparationState& state) const {
  if (!is_there(path_)) return false;
  std::string problem;
  try {
    const Json json = read_checked_json(path_, kLargest);
    if (integer_in<int>(json.at("version")) != kVersion)
      throw Error(ErrorKind::kData, "it is of another version");
    PreparationState loaded = state;
    Fields::read(json, loaded);
    if (loaded.held_out) {
      for (const size_t rule : loaded.held_out->rules_of_sources())
        (void)loaded.held_out->rules().at(rule);
    }
    state = std::move(loaded);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;  // what it holds may be whole
    problem = error.what();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON library, or of vector::at
    problem = str(shown(path_), ": ", error.what());
  }
  log_warning(str("an interrupted preparation cannot be continued and begins again: ", problem));
  return false;
}

void Journal::save(const PreparationState& state) {
  Json json = Json::object();
  json["version"] = kVersion;
  Fields::write(json, state);
  write_file_atomic(path_, checked_json_text(std::move(json), /*indent=*/-1));
  options_.after_save();
  saved_ = Clock::now();
}

void Journal::remove() const { remove_tree(path_); }

}  // namespace lmtrain
