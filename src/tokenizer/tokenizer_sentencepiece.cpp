// make_sentencepiece_tokenizer of tokenizer_model.h: a sentencepiece model.
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/added_pieces.h"
#include "tokenizer/bpe_encoder.h"
#include "tokenizer/model_check.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/other_file.h"
#include "tokenizer/scratch_pool.h"
#include "tokenizer/text_normalizer.h"
#include "tokenizer/text_steps.h"
#include "tokenizer/tokenizer_model.h"
#include "tokenizer/unigram_encoder.h"

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
  SentencePieceTokenizer(std::vector<TokenizerFile>& files, const std::string& origin)
      : origin_(origin) {
    const std::string& model = files.front().bytes;
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
    const auto reason =
        is_unigram_ ? UnigramEncoder::why_not_exact(description) : why_not_exact(description);
    if (reason) {
      why_slow_ = *reason;
    } else if (!agrees(description, processor_)) {
      why_slow_ = "its file has parts in an unknown form";
    } else if (is_unigram_) {
      unigram_.emplace(description);
    } else {
      bpe_.emplace(description);
    }
    read_added(files, description);
    pieces_ = std::move(description.pieces);
  }

  int64_t vocab_size() const override {
    return static_cast<int64_t>(pieces_.size() + added_texts_.size());
  }
  SpecialIds special_ids() const override {
    const auto id = [](int32_t named, int32_t own) { return named >= 0 ? named : own; };
    return {
        id(added_.special.bos, processor_.bos_id()), id(added_.special.eos, processor_.eos_id()),
        id(added_.special.unk, processor_.unk_id()), id(added_.special.pad, processor_.pad_id())};
  }
  bool adds_bos() const override { return special_ids().bos >= 0 && added_.adds_bos; }
  const std::string& why_slow() const override { return why_slow_; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    scratches_.with([&](Scratch& scratch) {
      if (added_.tokens.empty()) {
        encode_part(text, /*adds_prefix=*/true, scratch, ids);
        return;
      }
      if (!is_utf8(text)) text = scratch.valid = replacing_malformed(text);
      if (text.empty()) return;
      raw_tokens_->find(text, scratch.parts);
      for (const AddedTokens::Part& part : scratch.parts) {
        if (part.token != nullptr) {
          ids.push_back(part.token->id);
          continue;
        }
        const std::string_view between = text.substr(part.begin, part.end - part.begin);
        normalized_tokens_->find(between, scratch.normal_parts);
        for (const AddedTokens::Part& inner : scratch.normal_parts) {
          if (inner.token != nullptr) {
            ids.push_back(inner.token->id);
          } else {
            const bool is_first = part.begin + inner.begin == 0;
            encode_part(between.substr(inner.begin, inner.end - inner.begin),
                        is_first || added_.prefixes_parts, scratch, ids);
          }
        }
      }
    });
    return ids;
  }

  // The library decodes each run of the model's own ids. A run behind an added token keeps its
  // first space, unless that is a dummy prefix.
  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    std::vector<int32_t> run;
    bool is_first = true;
    const auto end_run = [&] {
      if (run.empty()) return;
      std::string decoded;
      const bool guards = !is_first && !added_.prefixes_parts && guard_ >= 0;
      if (guards) run.insert(run.begin(), guard_);
      check(processor_.Decode(run, &decoded), "decode");
      text += guards ? decoded.substr(guard_size_) : decoded;
      run.clear();
    };
    for (const int32_t id : ids) {
      const auto index = static_cast<size_t>(id);
      if (index < pieces_.size()) {
        run.push_back(id);
        continue;
      }
      end_run();
      is_first = false;
      text += added_texts_[index - pieces_.size()];
    }
    end_run();
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
      if (piece.is_in_text()) size = with_spaces(piece.text).size();
      bytes.push_back(static_cast<uint32_t>(size));
    }
    for (const std::string& text : added_texts_)
      bytes.push_back(static_cast<uint32_t>(text.size()));
    return bytes;
  }

  std::vector<int32_t> space_in_bytes() const override {
    std::vector<int32_t> ids;
    for (const char c : kSpaceMark) {
      const std::string token = fallback_token(static_cast<unsigned char>(c));
      const auto is_it = [&](const ModelPiece& piece) {
        return piece.type == PieceType::kByte && piece.text == token;
      };
      const auto found = std::find_if(pieces_.begin(), pieces_.end(), is_it);
      if (found == pieces_.end()) return {};
      ids.push_back(static_cast<int32_t>(found - pieces_.begin()));
    }
    return ids;
  }

  std::string hf_tokenizer_config(bool add_bos, int64_t model_max_length) const override {
    if (!added_.tokens.empty()) {
      // transformers 4 and 5 have different defaults for these keys.
      nlohmann::ordered_json config = added_.settings;
      config["add_bos_token"] = add_bos;
      config["add_eos_token"] = false;  // a prompt does not end
      config["legacy"] = added_.prefixes_parts;
      config["model_max_length"] = model_max_length;
      return config.dump(2) + "\n";
    }
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
  struct Scratch {
    BpeEncoder::Scratch bpe;
    UnigramEncoder::Scratch unigram;
    std::vector<int32_t> ids;
    std::string valid;
    std::vector<AddedTokens::Part> parts;
    std::vector<AddedTokens::Part> normal_parts;
  };

  void read_added(std::vector<TokenizerFile>& files, const SentencePieceModel& model) {
    added_ = read_added_pieces(files, model.pieces, origin_);
    if (added_.tokens.empty()) {
      files.resize(1);
      return;
    }
    if (!bpe_ && !unigram_)
      throw Error(ErrorKind::kData,
                  str(origin_,
                      " has added tokens beside it, and only sentencepiece itself can "
                      "encode it (",
                      why_slow_,
                      "), which knows none; give the .model file in a folder of its own to train "
                      "without added tokens"));
    std::vector<AddedToken> raw;
    std::vector<AddedToken> normalized;
    for (const AddedToken& token : added_.tokens) {
      (token.normalized ? normalized : raw).push_back(token);
      if (static_cast<size_t>(token.id) >= model.pieces.size())
        added_texts_.push_back(token.special ? "" : token.content);
    }
    raw_tokens_.emplace(std::move(raw));
    normalized_tokens_.emplace(std::move(normalized));
    for (size_t id = 0; id < model.pieces.size() && guard_ < 0; ++id) {
      const ModelPiece& piece = model.pieces[id];
      if (piece.type != PieceType::kNormal || piece.text.find(kSpaceMark) != std::string::npos)
        continue;
      guard_ = static_cast<int32_t>(id);
      guard_size_ = piece.text.size();
    }
  }

  void encode_part(std::string_view text, bool adds_prefix, Scratch& scratch,
                   std::vector<int32_t>& ids) const {
    if (unigram_) {
      unigram_->encode(text, scratch.unigram, ids, adds_prefix);
      return;
    }
    if (bpe_) {
      scratch.bpe.exchange(words_);
      bpe_->encode(text, scratch.bpe, scratch.ids, adds_prefix);
    } else if (const auto status = processor_.Encode(text, &scratch.ids); !status.ok()) {
      throw Error(ErrorKind::kData,
                  str(origin_, " cannot encode a text (", status.error_message(),
                      "): a control piece hides a piece that text needs, or the file is damaged; "
                      "give another sentencepiece model"));
    }
    if (ids.empty()) {
      ids.swap(scratch.ids);
    } else {
      ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::string origin_;
  std::vector<ModelPiece> pieces_;
  bool is_unigram_ = false;
  std::string why_slow_;
  // One of these, where it gives sentencepiece's ids.
  std::optional<BpeEncoder> bpe_;
  std::optional<UnigramEncoder> unigram_;
  AddedPieces added_;
  std::vector<std::string> added_texts_;  // of ids above the pieces; "" if special
  std::optional<AddedTokens> raw_tokens_;
  std::optional<AddedTokens> normalized_tokens_;
  int32_t guard_ = -1;  // a piece that is decoded as it is spelled; -1: there is none
  size_t guard_size_ = 0;
  mutable SharedWords words_;
  mutable ScratchPool<Scratch> scratches_;
};

}  // namespace

std::unique_ptr<TokenizerModel> make_sentencepiece_tokenizer(std::vector<TokenizerFile>& files,
                                                             const std::string& origin) {
  return std::make_unique<SentencePieceTokenizer>(files, origin);
}

}  // namespace lmtrain
