#include "checkpoint/given_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/read_file.h"
#include "base/text.h"
#include "checkpoint/model_location.h"
#include "config/init_from.h"
#include "device/work_queue.h"
#include "formats/manifest.h"
#include "formats/strict_json.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Rows of the embedding that no id of the tokenizer reaches are padding up to this share.
constexpr double kMostUnusedRows = 0.1;

// Says why two tokenizers may give different ids for some text; empty if they never do.
std::string difference(const SentencePieceModel& given, const SentencePieceModel& theirs) {
  const size_t common = std::min(given.pieces.size(), theirs.pieces.size());
  for (size_t id = 0; id < common; ++id) {
    const ModelPiece& a = given.pieces[id];
    const ModelPiece& b = theirs.pieces[id];
    if (a.text != b.text)
      return str("id ", id, " is \"", a.text, "\" and \"", b.text, "\" in that of the weights");
    if (a.type != b.type || a.score != b.score)
      return str("id ", id, ", \"", a.text, "\", has another score or type");
  }
  if (given.pieces.size() != theirs.pieces.size())
    return str("it has ", given.pieces.size(), " pieces, that of the weights ",
               theirs.pieces.size());
  const bool same = given.type == theirs.type && given.byte_fallback == theirs.byte_fallback &&
                    given.space_is_suffix == theirs.space_is_suffix &&
                    given.changes_characters == theirs.changes_characters &&
                    given.adds_prefix == theirs.adds_prefix &&
                    given.removes_spaces == theirs.removes_spaces &&
                    given.escapes_spaces == theirs.escapes_spaces;
  return same ? "" : "it changes text in another way before it is cut into pieces";
}

// Returns the tokenizer in the folder of the weights; nothing if none can be read.
std::optional<Tokenizer> tokenizer_of_weights(const fs::path& folder) {
  const std::optional<fs::path> file = tokenizer_in(folder);
  if (!file) return std::nullopt;
  try {
    return Tokenizer::load(*file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return std::nullopt;
  }
}

// Returns a tokenizer.json; a discarded value if it cannot be read.
nlohmann::json tokenizer_json(const std::string& bytes) {
  try {
    return parse_strict_json(bytes, {.max_depth = 64});
  } catch (const Error&) {
    return nlohmann::json(nlohmann::json::value_t::discarded);
  }
}

// Returns the pieces of a Hugging Face tokenizer.json by id; empty if it has another form.
std::vector<std::string> pieces_of_json(const std::string& bytes) {
  const auto json = tokenizer_json(bytes);
  std::vector<std::string> pieces;
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) return pieces;
  const nlohmann::json vocabulary = json["model"].value("vocab", nlohmann::json());
  if (vocabulary.is_array()) {  // of a unigram model: [piece, score] by id
    for (const nlohmann::json& entry : vocabulary) {
      if (!entry.is_array() || entry.empty() || !entry[0].is_string()) return {};
      pieces.push_back(entry[0].get<std::string>());
    }
  } else if (vocabulary.is_object()) {  // of the others: piece to id
    pieces.resize(vocabulary.size());
    for (const auto& [piece, id] : vocabulary.items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= pieces.size()) return {};
      pieces[id.get<size_t>()] = piece;
    }
  }
  return pieces;
}

std::vector<std::string> pieces_of(const Tokenizer& tokenizer) {
  if (tokenizer.is_json()) return pieces_of_json(tokenizer.model_bytes());
  std::vector<std::string> pieces;
  for (ModelPiece& piece : read_model(tokenizer.model_bytes()).pieces)
    pieces.push_back(std::move(piece.text));
  return pieces;
}

// Says how the pieces of two tokenizers differ; empty if they are the same.
std::string difference(const std::vector<std::string>& given,
                       const std::vector<std::string>& theirs) {
  for (size_t id = 0; id < std::min(given.size(), theirs.size()); ++id) {
    if (given[id] != theirs[id])
      return str("id ", id, " is \"", given[id], "\" and \"", theirs[id],
                 "\" in that of the weights");
  }
  return "";
}

// Which part that decides ids is another in two tokenizer.json; empty when there is none.
std::string difference_of_json(const std::string& given, const std::string& theirs) {
  if (given == theirs) return "";
  const auto a = tokenizer_json(given);
  const auto b = tokenizer_json(theirs);
  if (!a.is_object() || !b.is_object()) return "";
  for (const char* part : {"model", "added_tokens", "normalizer", "pre_tokenizer"}) {
    if (a.value(part, nlohmann::json()) != b.value(part, nlohmann::json()))
      return str("its ", part, " is another");
  }
  return "";
}

bool is_of_weights(const fs::path& tokenizer, const fs::path& folder) {
  std::error_code error;
  const std::optional<fs::path> theirs = tokenizer_in(folder);
  return theirs && fs::equivalent(tokenizer, *theirs, error);
}

// Loads a tokenizer. If it is the tokenizer of the weights, of an unknown kind, the error says how
// to go on.
Tokenizer load_given(const fs::path& tokenizer, const fs::path& folder) {
  try {
    return Tokenizer::load(tokenizer);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData || !is_of_weights(tokenizer, folder)) throw;
    throw Error(ErrorKind::kData,
                str(error.what(),
                    "; to train these weights on another tokenizer, whose ids mean other text to "
                    "them, set both tokenizer.model and tokenizer.allow_mismatch"));
  }
}

void check_tokenizer(const Config& config, std::vector<std::string>& warnings) {
  const fs::path folder = *config.init_from;
  if (!config.tokenizer.model) {
    warnings.push_back(
        str("a new tokenizer is trained under the weights of ", folder.string(),
            " (tokenizer.allow_mismatch): its ids mean nothing to their embedding and head, which "
            "must be learnt anew"));
    return;
  }
  if (!is_there(*config.tokenizer.model)) return;  // said when the data is prepared
  const Tokenizer given = load_given(*config.tokenizer.model, folder);
  const int64_t rows = config.model.vocab_size.value_or(kLlamaDefaultVocabSize);
  if (given.vocab_size() > rows) {
    throw Error(ErrorKind::kConfig,
                str("tokenizer.model ", *config.tokenizer.model, " has ", given.vocab_size(),
                    " pieces, the embedding of init_from ", folder.string(), " has ", rows,
                    " rows (model.vocab_size): they do not belong together; give the tokenizer "
                    "that the weights were trained with"));
  }
  if (static_cast<double>(rows - given.vocab_size()) > kMostUnusedRows * static_cast<double>(rows))
    warnings.push_back(str("tokenizer.model ", *config.tokenizer.model, " has ", given.vocab_size(),
                           " pieces, the embedding of init_from has ", rows,
                           " rows: is it the tokenizer of these weights?"));
  if (is_of_weights(*config.tokenizer.model, folder)) return;
  const std::optional<TokenizerDifference> differs = difference_from_weights(given, folder);
  if (!differs) {
    warnings.push_back(
        str("init_from: ", folder.string(),
            " has no tokenizer to compare tokenizer.model with; it must be the one that the "
            "weights were trained with"));
    return;
  }
  if (differs->what.empty()) return;
  const std::string what =
      str("tokenizer.model ", *config.tokenizer.model, " is not the tokenizer of the weights, ",
          differs->theirs.string(), ": ", differs->what);
  if (!config.tokenizer.allow_mismatch) {
    const char* advice =
        tokenizer_of_weights(folder) ? "leave tokenizer.model out, or set " : "set ";
    throw Error(ErrorKind::kConfig, str(what, "; ", advice,
                                        "tokenizer.allow_mismatch to true to train these weights "
                                        "on other ids"));
  }
  warnings.push_back(str(what, " (tokenizer.allow_mismatch)"));
}

void check_length(const Config& config, std::vector<std::string>& warnings) {
  const int64_t theirs = located_max_length({*config.init_from, std::nullopt});
  const int64_t ours = config.sequence.max_length;
  if (ours == theirs) return;
  const std::string what =
      str("max_position_embeddings of init_from is ", theirs, ", sequence.max_length is ", ours);
  warnings.push_back(
      ours < theirs
          ? str(what, ": the model is trained on rows up to ", ours,
                ", and its checkpoints say max_position_embeddings ", ours,
                "; set sequence.max_length to ", theirs, " to keep the length")
          : str(what, ": positions from ", theirs,
                " on are new to the weights, and checkpoints say max_position_embeddings ", ours,
                "; set sequence.max_length to ", theirs, " to keep the length"));
}

std::string digest_of(const TensorFiles& files) {
  // The threads read and hash gigabytes; the fields are then added in their order.
  std::vector<std::string_view> bytes;
  for (const auto& [name, view] : files.tensors()) bytes.push_back(view.bytes);
  std::vector<Hash128> hashes(bytes.size());
  parallel_for_queued(static_cast<int64_t>(bytes.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      hashes[static_cast<size_t>(i)] = hash128(bytes[static_cast<size_t>(i)]);
  });
  Hasher hasher;
  size_t index = 0;
  for (const auto& [name, view] : files.tensors()) {
    hasher.add(name).add(dtype_name(view.dtype)).add(view.shape.size());
    for (const int64_t size : view.shape) hasher.add(static_cast<uint64_t>(size));
    hasher.add_hashed(view.bytes.size(), hashes[index++]);
  }
  return hasher.digest().hex();
}

}  // namespace

std::optional<TokenizerDifference> difference_from_weights(const Tokenizer& given,
                                                           const fs::path& folder) {
  const std::optional<Tokenizer> theirs = tokenizer_of_weights(folder);
  if (theirs && !theirs->is_json()) {
    return TokenizerDifference{folder / Tokenizer::kSentencePieceModel,
                               given.is_json() ? difference(pieces_of(given), pieces_of(*theirs))
                                               : difference(read_model(given.model_bytes()),
                                                            read_model(theirs->model_bytes()))};
  }
  const fs::path json = folder / Tokenizer::kTokenizerJson;
  if (!is_file(json)) return std::nullopt;
  constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  const std::string bytes = read_file(json, kMostBytes);
  const std::vector<std::string> pieces = pieces_of_json(bytes);
  if (pieces.empty()) return std::nullopt;
  std::string differs = difference(pieces_of(given), pieces);
  if (differs.empty() && given.is_json()) differs = difference_of_json(given.model_bytes(), bytes);
  return TokenizerDifference{json, differs};
}

fs::path best_checkpoint_of(const fs::path& run) {
  try {
    return locate_model(run).folder;
  } catch (const Error& error) {
    throw Error(error.kind(), str("/init_from: ", error.what()));
  }
}

std::vector<std::string> check_given_model(const Config& config) {
  std::vector<std::string> warnings;
  if (!config.init_from) return warnings;
  const TensorFiles weights(*config.init_from);  // which throws where there are none
  check_tokenizer(config, warnings);
  check_length(config, warnings);
  return warnings;
}

std::string weights_digest(const fs::path& folder) {
  if (!is_checkpoint_folder(folder)) return digest_of(TensorFiles(folder));
  if (!is_there(folder / kManifestFile)) return "";
  const Manifest manifest = read_manifest(folder);
  const auto entry = manifest.files.find(kModelFile);
  if (entry == manifest.files.end()) return "";
  return Hasher().add(entry->second.size).add(entry->second.crc32c).digest().hex();
}

void load_initial_weights(const std::string& folder, Parameters& parameters,
                          const std::string& digest) {
  if (is_checkpoint_folder(folder)) verify_checkpoint_files(folder, /*skip_training_state=*/true);
  const TensorFiles files(folder);
  if (!digest.empty() && weights_digest(folder) != digest) {
    throw Error(ErrorKind::kData,
                str("the weights in ", folder,
                    " (init_from) are not those that the run began with, and it has no checkpoint "
                    "to go on from; put them back, or start a new run"));
  }
  load_weights(files, parameters);
  if (const std::string bad = first_bad_tensor(parameters.layout(), parameters.master());
      !bad.empty()) {
    throw Error(ErrorKind::kData,
                str("the weights in ", folder, " (init_from) are not finite (first: ", bad,
                    "), and nothing can be trained from them; give other weights"));
  }
}

}  // namespace lmtrain
