#include "corpus/journal.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

// Raised when the fields change; a journal of another version is as good as none.
constexpr int kVersion = 2;

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

Json to_json(const SourceTally& sources) {
  Json runs = Json::array();
  for (const SourceTally::Run& run : sources.tally())
    runs.push_back({run.source, run.documents, run.smallest_hash, run.with_smallest_hash});
  return runs;
}
void read(const Json& json, SourceTally& sources) {
  std::vector<SourceTally::Run> runs;
  for (const Json& run : json) {
    runs.push_back({run.at(0).get<int32_t>(), run.at(1).get<int64_t>(), run.at(2).get<uint64_t>(),
                    run.at(3).get<int64_t>()});
  }
  sources.restore(std::move(runs));
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
            {"eval_bytes", tokens.eval_bytes}};
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
  if (!json.contains("eval")) return;
  read(json.at("eval"), tokens.eval.emplace().shard);
  read(json.at("eval_hashes"), tokens.eval->hashes);
}

void read(const Json& json, PreparationState& state) {
  if (json.at("version").get<int>() != kVersion)
    throw Error(ErrorKind::kData, "it is of another version");
  read(json.at("train"), state.train);
  read(json.at("eval"), state.eval);
  state.split.restore(json.at("split").at(0).get<uint64_t>(),
                      json.at("split").at(1).get<uint64_t>());
  read(json.at("sample"), state.sample);
  read(json.at("sources"), state.sources);
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
    read(Json::parse(read_file(path_)), loaded);
    state = std::move(loaded);
    return true;
  } catch (const std::exception& error) {  // Error, or what the JSON library and vector::at throw
    problem = error.what();
  }
  log_warning(str("an interrupted preparation cannot be continued and begins again: ",
                  path_.string(), ": ", problem));
  return false;
}

void Journal::save(const PreparationState& state) {
  Json json{{"version", kVersion},
            {"train", to_json(state.train)},
            {"eval", to_json(state.eval)},
            {"split", {state.split.smallest(), state.split.largest()}},
            {"sample", to_json(state.sample)},
            {"sources", to_json(state.sources)}};
  if (state.tokens) json["tokens"] = to_json(*state.tokens);
  write_file_atomic(path_, json.dump());
  options_.after_save();
  saved_ = Clock::now();
}

void Journal::remove() const { remove_tree(path_); }

}  // namespace lmtrain
