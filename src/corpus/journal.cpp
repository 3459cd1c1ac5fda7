#include "corpus/journal.h"

#include <bit>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/files/file.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "formats/checked_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

// Raised when the fields change, or what they mean; a journal of another version is as good as
// none.
constexpr int kVersion = 3;

constexpr uint64_t kLargest = uint64_t{1} << 30;

Json to_json(const Hash128& hash) { return {hash.low, hash.high}; }
void read(const Json& json, Hash128& hash) {
  json.at(0).get_to(hash.low);
  json.at(1).get_to(hash.high);
}

Json to_json(const FileSum& sum) { return {sum.size, sum.crc}; }
void read(const Json& json, FileSum& sum) {
  json.at(0).get_to(sum.size);
  json.at(1).get_to(sum.crc);
}

Json to_json(const FormatCounts& formats) {
  Json json = Json::object();
  for (const auto& [format, count] : formats) json[format] = {count.files, count.documents};
  return json;
}
void read(const Json& json, FormatCounts& formats) {
  for (const auto& [format, count] : json.items())
    formats[format] = {count.at(0).get<int64_t>(), count.at(1).get<int64_t>()};
}

Json to_json(const CorpusScan& scan) {
  const CorpusCounts& counts = scan.counts;
  return {{"next_file", scan.next_file},
          {"content", to_json(scan.content)},
          {"documents", counts.documents},
          {"bytes", counts.bytes},
          {"empty_documents", counts.empty_documents},
          {"invalid_documents", counts.invalid_documents},
          {"nul_documents", counts.nul_documents},
          {"blank_lines", counts.skipped.blank_lines},
          {"nulls", counts.skipped.nulls},
          {"formats", to_json(counts.formats)}};
}
void read(const Json& json, CorpusScan& scan) {
  CorpusCounts& counts = scan.counts;
  json.at("next_file").get_to(scan.next_file);
  read(json.at("content"), scan.content);
  json.at("documents").get_to(counts.documents);
  json.at("bytes").get_to(counts.bytes);
  json.at("empty_documents").get_to(counts.empty_documents);
  json.at("invalid_documents").get_to(counts.invalid_documents);
  json.at("nul_documents").get_to(counts.nul_documents);
  json.at("blank_lines").get_to(counts.skipped.blank_lines);
  json.at("nulls").get_to(counts.skipped.nulls);
  read(json.at("formats"), counts.formats);
}

// Only what is not zero: range, bytes, range, bytes, ...
Json to_json(const Sample& sample) {
  Json pairs = Json::array();
  for (size_t i = 0; i < sample.bytes().size(); ++i) {
    if (sample.bytes()[i] == 0) continue;
    pairs.push_back(i);
    pairs.push_back(sample.bytes()[i]);
  }
  return pairs;
}
void read(const Json& json, Sample& sample) {
  std::vector<uint64_t> bytes(sample.bytes().size());
  for (size_t i = 0; i + 1 < json.size(); i += 2)
    bytes.at(json[i].get<size_t>()) = json[i + 1].get<uint64_t>();
  sample.restore(std::move(bytes));
}

Json to_json(const SourceShapes& sources) {
  Json shapes = Json::array();
  for (const SourceShape& shape : sources.shapes()) {
    shapes.push_back(
        {shape.documents, shape.size, shape.largest, shape.smallest_hash, shape.largest_hash});
  }
  return {{"shapes", std::move(shapes)},
          {"order", to_json(sources.order())},
          {"last", sources.last_source()}};
}
void read(const Json& json, SourceShapes& sources) {
  std::vector<SourceShape> shapes;
  for (const Json& shape : json.at("shapes")) {
    shapes.push_back({shape.at(0).get<int64_t>(), shape.at(1).get<uint64_t>(),
                      shape.at(2).get<uint64_t>(), shape.at(3).get<uint64_t>(),
                      shape.at(4).get<uint64_t>()});
  }
  Hash128 order;
  read(json.at("order"), order);
  sources.restore(std::move(shapes), order, json.at("last").get<int32_t>());
}

Json to_json(const OverlapFinder& overlap) {
  Json entries = Json::array();
  for (const auto& [hash, entry] : overlap.entries())
    entries.push_back({hash, entry.documents, entry.bytes, entry.is_found});
  return entries;
}
void read(const Json& json, OverlapFinder& overlap) {
  std::map<uint64_t, OverlapFinder::Entry> entries;
  for (const Json& entry : json) {
    entries[entry.at(0).get<uint64_t>()] = {entry.at(1).get<int64_t>(), entry.at(2).get<int64_t>(),
                                            entry.at(3).get<bool>()};
  }
  overlap.restore(std::move(entries));
}

// The fraction as its bits.
Json to_json(const HoldOut& held_out) {
  Json rules = Json::array();
  for (const HoldOutRule& rule : held_out.rules())
    rules.push_back({rule.block, std::bit_cast<uint64_t>(rule.fraction), rule.chosen});
  return {{"rules_of_sources", held_out.rules_of_sources()}, {"rules", std::move(rules)}};
}
void read(const Json& json, HoldOut& held_out) {
  std::vector<HoldOutRule> rules;
  for (const Json& rule : json.at("rules")) {
    rules.push_back({rule.at(0).get<uint64_t>(), std::bit_cast<double>(rule.at(1).get<uint64_t>()),
                     rule.at(2).get<std::vector<uint64_t>>()});
  }
  held_out.restore(json.at("rules_of_sources").get<std::vector<size_t>>(), std::move(rules));
}

Json to_json(const ShardProgress& shard) {
  return {{"documents", shard.num_documents},
          {"tokens", shard.num_tokens},
          {"tokens_crc", shard.tokens_crc},
          {"tokens_file", to_json(shard.tokens)},
          {"index_file", to_json(shard.index)}};
}
void read(const Json& json, ShardProgress& shard) {
  json.at("documents").get_to(shard.num_documents);
  json.at("tokens").get_to(shard.num_tokens);
  json.at("tokens_crc").get_to(shard.tokens_crc);
  read(json.at("tokens_file"), shard.tokens);
  read(json.at("index_file"), shard.index);
}

Json to_json(const TokensProgress& tokens) {
  Json json{{"fingerprint", tokens.fingerprint},
            {"in_eval", tokens.in_eval},
            {"next", {tokens.next.file, tokens.next.position}},
            {"content", to_json(tokens.content)},
            {"train", to_json(tokens.train)},
            {"train_bytes", tokens.train_bytes},
            {"eval_bytes", tokens.eval_bytes},
            {"files", tokens.files.first_documents()}};
  if (tokens.eval) {
    json["eval"] = to_json(tokens.eval->shard);
    json["eval_hashes"] = to_json(tokens.eval->hashes);
  }
  return json;
}
void read(const Json& json, TokensProgress& tokens) {
  json.at("fingerprint").get_to(tokens.fingerprint);
  json.at("in_eval").get_to(tokens.in_eval);
  json.at("next").at(0).get_to(tokens.next.file);
  json.at("next").at(1).get_to(tokens.next.position);
  read(json.at("content"), tokens.content);
  read(json.at("train"), tokens.train);
  json.at("train_bytes").get_to(tokens.train_bytes);
  json.at("eval_bytes").get_to(tokens.eval_bytes);
  tokens.files.restore(json.at("files").get<std::vector<int64_t>>());
  if (!json.contains("eval")) return;
  read(json.at("eval"), tokens.eval.emplace().shard);
  read(json.at("eval_hashes"), tokens.eval->hashes);
}

void read(const Json& json, PreparationState& state) {
  if (json.at("version").get<int>() != kVersion)
    throw Error(ErrorKind::kData, "it is of another version");
  read(json.at("train"), state.train);
  read(json.at("eval"), state.eval);
  read(json.at("sample"), state.sample);
  read(json.at("sources"), state.sources);
  read(json.at("overlap"), state.overlap);
  if (json.contains("held_out")) read(json.at("held_out"), state.held_out.emplace());
  if (json.contains("tokens")) read(json.at("tokens"), state.tokens.emplace());
}

}  // namespace

Journal::Journal(std::filesystem::path path, const PrepareOptions& options)
    : path_(std::move(path)), options_(options) {}

bool Journal::load(PreparationState& state) const {
  if (!is_there(path_)) return false;
  std::string problem;
  try {
    PreparationState loaded = state;
    read(read_checked_json(path_, kLargest), loaded);
    state = std::move(loaded);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;  // what it holds may be whole
    problem = error.what();
  } catch (const std::exception& error) {  // of the JSON library, or of vector::at
    problem = str(path_.string(), ": ", error.what());
  }
  log_warning(str("an interrupted preparation cannot be continued and begins again: ", problem));
  return false;
}

void Journal::save(const PreparationState& state) {
  Json json{{"version", kVersion},
            {"train", to_json(state.train)},
            {"eval", to_json(state.eval)},
            {"sample", to_json(state.sample)},
            {"sources", to_json(state.sources)},
            {"overlap", to_json(state.overlap)}};
  if (state.held_out) json["held_out"] = to_json(*state.held_out);
  if (state.tokens) json["tokens"] = to_json(*state.tokens);
  write_file_atomic(path_, checked_json_text(std::move(json), /*indent=*/-1));
  options_.after_save();
  saved_ = Clock::now();
}

void Journal::remove() const { remove_tree(path_); }

}  // namespace lmtrain
