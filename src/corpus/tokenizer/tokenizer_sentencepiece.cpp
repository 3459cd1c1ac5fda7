// make_sentencepiece_tokenizer of tokenizer_model.h: a sentencepiece model.
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "corpus/bpe/scratch_pool.h"
#include "corpus/tokenizer/bpe_encoder.h"
#include "corpus/tokenizer/model_check.h"
#include "corpus/tokenizer/model_proto.h"
#include "corpus/tokenizer/other_file.h"
#include "corpus/tokenizer/tokenizer_model.h"

namespace lmtrain {
namespace {

void check(const sentencepiece::util::Status& status, std::string_view action) {
  if (!status.ok())
    throw Error(ErrorKind::kInternal,
                str("sentencepiece cannot ", action, ": ", status.error_message()));
}

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

class SentencePieceTokenizer : public TokenizerModel {
 public:
  SentencePieceTokenizer(const std::string& model, const std::string& origin) : origin_(origin) {
    const auto fail = [&](std::string_view problem) {
      throw Error(ErrorKind::kData,
                  str(origin, " is not a sentencepiece model (", problem,
                      "); give a .model file, or leave tokenizer.model null to train one"));
    };
    if (const std::string other = other_than_sentencepiece(model); !other.empty()) {
      throw Error(ErrorKind::kData,
                  str(origin, " is not a sentencepiece model: it is ", other,
                      "; give the sentencepiece model (.model) or the tokenizer.json of the same "
                      "tokenizer, or leave tokenizer.model null to train one"));
    }
    SentencePieceModel description = read_model(model);
    if (const std::string problem = model_problem(description); !problem.empty()) fail(problem);
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok()) fail(status.error_message());
    is_unigram_ = description.type == ModelType::kUnigram;
    if (const auto reason = why_not_exact(description)) {
      why_slow_ = *reason;
    } else if (!agrees(description, processor_)) {
      why_slow_ = "its file has parts in an unknown form";
    } else {
      bpe_.emplace(description);
    }
    pieces_ = std::move(description.pieces);
  }

  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  SpecialIds special_ids() const override {
    return {processor_.bos_id(), processor_.eos_id(), processor_.unk_id(), processor_.pad_id()};
  }
  bool adds_bos() const override { return processor_.bos_id() >= 0; }
  const std::string& why_slow() const override { return why_slow_; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    if (bpe_) {
      scratches_.with([&](BpeEncoder::Scratch& scratch) { bpe_->encode(text, scratch, ids); });
      return ids;
    }
    // Whole: unigram sums scores from the beginning of the text, and their rounding decides ties.
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok()) {
      throw Error(ErrorKind::kData,
                  str(origin_, " cannot encode a text (", status.error_message(),
                      "): a control piece hides a piece that text needs, or the file is damaged; "
                      "give another sentencepiece model"));
    }
    return ids;
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    check(processor_.Decode(ids, &text), "decode");
    return text;
  }

  // A piece stands for its text with spaces for U+2581; a control piece for none.
  std::vector<uint32_t> piece_bytes() const override {
    std::vector<uint32_t> bytes;
    bytes.reserve(pieces_.size());
    for (const ModelPiece& piece : pieces_) {
      size_t size = piece.text.size();
      if (piece.type == PieceType::kByte || piece.type == PieceType::kUnknown) size = 1;
      if (piece.type == PieceType::kControl) size = 0;
      if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined) {
        for (size_t at = 0; (at = piece.text.find(kSpaceMark, at)) != std::string::npos;
             at += kSpaceMark.size())
          size -= kSpaceMark.size() - 1;
      }
      bytes.push_back(static_cast<uint32_t>(size));
    }
    return bytes;
  }

  // The text of a byte piece is "<0xE2>".
  std::vector<int32_t> space_in_bytes() const override {
    std::vector<int32_t> ids;
    for (const char c : kSpaceMark) {
      const std::string hex = to_hex(std::string(1, c));
      const auto is_it = [&](const ModelPiece& piece) {
        return piece.type == PieceType::kByte && lower_case(piece.text) == "<0x" + hex + ">";
      };
      const auto found = std::find_if(pieces_.begin(), pieces_.end(), is_it);
      if (found == pieces_.end()) return {};
      ids.push_back(static_cast<int32_t>(found - pieces_.begin()));
    }
    return ids;
  }

  std::string hf_tokenizer_config(bool add_bos, int64_t model_max_length) const override {
    // A model with a dummy prefix puts a space (U+2581) before the first word.
    const std::vector<int32_t> ids = encode("a");
    const bool has_prefix =
        !ids.empty() && processor_.IdToPiece(ids.front()).starts_with(kSpaceMark);
    nlohmann::ordered_json config;
    // With the class named, transformers 5 reads a unigram model as BPE.
    if (!is_unigram_) config["tokenizer_class"] = "LlamaTokenizer";
    const auto add_piece = [&](const char* key, int32_t id) {
      if (id >= 0) config[key] = processor_.IdToPiece(id);
    };
    add_piece("bos_token", processor_.bos_id());
    add_piece("eos_token", processor_.eos_id());
    add_piece("unk_token", processor_.unk_id());
    add_piece("pad_token", processor_.pad_id());
    config["add_bos_token"] = add_bos;
    config["add_eos_token"] = false;
    config["add_prefix_space"] = has_prefix;
    config["legacy"] = false;
    config["clean_up_tokenization_spaces"] = false;
    config["split_special_tokens"] = true;
    config["model_max_length"] = model_max_length;
    return config.dump(2) + "\n";
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  std::string origin_;
  std::vector<ModelPiece> pieces_;
  bool is_unigram_ = false;
  std::string why_slow_;
  std::optional<BpeEncoder> bpe_;  // where it gives sentencepiece's ids
  mutable ScratchPool<BpeEncoder::Scratch> scratches_;
};

}  // namespace

std::unique_ptr<TokenizerModel> make_sentencepiece_tokenizer(const std::string& model,
                                                             const std::string& origin) {
  return std::make_unique<SentencePieceTokenizer>(model, origin);
}

}  // namespace lmtrain
