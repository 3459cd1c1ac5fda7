#include "corpus/tokenizer/tokenizer.h"

#include <sentencepiece_processor.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/files/file.h"
#include "base/text.h"
#include "corpus/tokenizer/bpe_encoder.h"
#include "corpus/tokenizer/model_check.h"
#include "corpus/tokenizer/model_proto.h"
#include "corpus/tokenizer/other_file.h"

namespace lmtrain {
namespace {

void check(const sentencepiece::util::Status& status, std::string_view action) {
  if (!status.ok())
    throw Error(ErrorKind::kInternal,
                str("sentencepiece cannot ", action, ": ", status.error_message()));
}

}  // namespace

struct Tokenizer::Impl {
  sentencepiece::SentencePieceProcessor processor;
  std::string origin;
  bool is_unigram = false;
  std::string why_slow;
  std::optional<BpeEncoder> bpe;  // where it gives sentencepiece's ids

  // Scratches not in use: what was learned of words stays when a thread goes on to another
  // document.
  std::mutex mutex;
  std::vector<std::unique_ptr<BpeEncoder::Scratch>> scratches;

  std::unique_ptr<BpeEncoder::Scratch> take_scratch() {
    const std::lock_guard lock(mutex);
    if (scratches.empty()) return std::make_unique<BpeEncoder::Scratch>();
    std::unique_ptr<BpeEncoder::Scratch> scratch = std::move(scratches.back());
    scratches.pop_back();
    return scratch;
  }
  void put_back(std::unique_ptr<BpeEncoder::Scratch> scratch) {
    const std::lock_guard lock(mutex);
    scratches.push_back(std::move(scratch));
  }
};

namespace {

// Whether we read the pieces as sentencepiece does.
bool agrees(const SentencePieceModel& model,
            const sentencepiece::SentencePieceProcessor& processor) {
  if (static_cast<size_t>(processor.GetPieceSize()) != model.pieces.size()) return false;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const ModelPiece& piece = model.pieces[static_cast<size_t>(id)];
    const auto is = [&](PieceType type) { return piece.type == type; };
    if (processor.IdToPiece(id) != piece.text || processor.GetScore(id) != piece.score ||
        processor.IsUnknown(id) != is(PieceType::kUnknown) ||
        processor.IsControl(id) != is(PieceType::kControl) ||
        processor.IsUnused(id) != is(PieceType::kUnused) ||
        processor.IsByte(id) != is(PieceType::kByte)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Tokenizer::Tokenizer(std::string model, const std::string& origin)
    : model_(std::move(model)), impl_(std::make_unique<Impl>()) {
  impl_->origin = origin;
  const auto fail = [&](std::string_view problem) {
    throw Error(ErrorKind::kData,
                str(origin, " is not a sentencepiece model (", problem,
                    "); give a .model file, or leave tokenizer.model null to train one"));
  };
  if (const std::string other = other_than_sentencepiece(model_); !other.empty()) {
    throw Error(ErrorKind::kData,
                str(origin, " is not a sentencepiece model: it is ", other,
                    "; give the sentencepiece model (.model) of the same tokenizer, or leave "
                    "tokenizer.model null to train one"));
  }
  const SentencePieceModel description = read_model(model_);
  if (const std::string problem = model_problem(description); !problem.empty()) fail(problem);
  const auto status = impl_->processor.LoadFromSerializedProto(model_);
  if (!status.ok()) fail(status.error_message());
  impl_->is_unigram = description.type == ModelType::kUnigram;
  if (const auto reason = why_not_exact(description)) {
    impl_->why_slow = *reason;
  } else if (!agrees(description, impl_->processor)) {
    impl_->why_slow = "its file has parts in an unknown form";
  } else {
    impl_->bpe.emplace(description);
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  if (is_folder(path)) {
    throw Error(ErrorKind::kUsage,
                str("tokenizer ", path.string(), " is a folder; give the .model file in it"));
  }
  return {read_file(path), path.string()};
}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

int64_t Tokenizer::vocab_size() const { return impl_->processor.GetPieceSize(); }
int32_t Tokenizer::bos_id() const { return impl_->processor.bos_id(); }
int32_t Tokenizer::eos_id() const { return impl_->processor.eos_id(); }
int32_t Tokenizer::unk_id() const { return impl_->processor.unk_id(); }
int32_t Tokenizer::pad_id() const { return impl_->processor.pad_id(); }

const std::string& Tokenizer::why_slow() const { return impl_->why_slow; }

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  if (impl_->bpe) {
    std::unique_ptr<BpeEncoder::Scratch> scratch = impl_->take_scratch();
    impl_->bpe->encode(text, *scratch, ids);
    impl_->put_back(std::move(scratch));
  } else {
    // Whole: unigram sums scores from the beginning of the text, and their rounding decides ties.
    const auto status = impl_->processor.Encode(text, &ids);
    if (!status.ok()) {
      throw Error(ErrorKind::kData,
                  str(impl_->origin, " cannot encode a text (", status.error_message(),
                      "): a control piece hides a piece that text needs, or the file is damaged; "
                      "give another sentencepiece model"));
    }
  }
  return ids;
}

void Tokenizer::require_special_ids(bool add_bos, bool add_eos) const {
  const auto require = [&](bool wanted, int32_t id, std::string_view name) {
    if (!wanted || id >= 0) return;
    throw Error(ErrorKind::kData, str(impl_->origin, " has no ", name, " piece; set tokenizer.add_",
                                      name, " to false, or use a model that has one"));
  };
  require(add_bos, bos_id(), "bos");
  require(add_eos, eos_id(), "eos");
}

std::vector<int32_t> Tokenizer::encode_document(std::string_view text, bool add_bos,
                                                bool add_eos) const {
  require_special_ids(add_bos, add_eos);
  std::vector<int32_t> ids = encode(text);
  if (add_bos) ids.insert(ids.begin(), bos_id());
  if (add_eos) ids.push_back(eos_id());
  return ids;
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size()) continue;
    throw Error(ErrorKind::kInternal,
                str("token ", id, " is outside the tokenizer's vocabulary of ", vocab_size()));
  }
  std::string text;
  check(impl_->processor.Decode(ids, &text), "decode");
  return text;
}

std::string Tokenizer::hf_tokenizer_config(bool add_bos, int64_t model_max_length) const {
  const auto& processor = impl_->processor;
  // A model with a dummy prefix puts a space (U+2581) before the first word.
  const std::vector<int32_t> ids = encode("a");
  const bool has_prefix = !ids.empty() && processor.IdToPiece(ids.front()).starts_with(kSpaceMark);
  nlohmann::ordered_json config;
  // With the class named, transformers 5 reads a unigram model as BPE.
  if (!impl_->is_unigram) config["tokenizer_class"] = "LlamaTokenizer";
  const auto add_piece = [&](const char* key, int32_t id) {
    if (id >= 0) config[key] = processor.IdToPiece(id);
  };
  add_piece("bos_token", bos_id());
  add_piece("eos_token", eos_id());
  add_piece("unk_token", unk_id());
  add_piece("pad_token", pad_id());
  config["add_bos_token"] = add_bos;
  config["add_eos_token"] = false;
  config["add_prefix_space"] = has_prefix;
  config["legacy"] = false;
  config["clean_up_tokenization_spaces"] = false;
  config["split_special_tokens"] = true;
  config["model_max_length"] = model_max_length;
  return config.dump(2) + "\n";
}

}  // namespace lmtrain
