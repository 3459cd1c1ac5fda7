#include "tokenizer/tokenizer_pipeline.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/character_bpe.h"
#include "tokenizer/scratch_pool.h"

namespace lmtrain {
namespace {

struct EncodeScratch {
  ByteBpe::Scratch bpe;
  CharacterBpe::Scratch character_bpe;
  Normalizer::Scratch normalizer;
  PreTokenizer::Scratch pre_tokenizer;
  std::string valid;
  std::vector<int32_t> word_ids;
  IdBuffer ids;
  std::vector<AddedTokens::Part> parts;
  std::vector<AddedTokens::Part> normal_parts;
};

// Returns the added tokens to find in raw text, or in normalised text, special ones first.
std::vector<AddedToken> tokens_to_find(const TokenizerJson& description,
                                       const Normalizer& normalizer, bool normalized) {
  std::vector<AddedToken> tokens;
  Normalizer::Scratch scratch;
  for (AddedToken token : description.added) {
    if (token.normalized != normalized) continue;
    if (normalized) token.content = std::string(normalizer.apply(token.content, scratch));
    tokens.push_back(std::move(token));
  }
  std::stable_partition(tokens.begin(), tokens.end(),
                        [](const AddedToken& token) { return token.special; });
  return tokens;
}

}  // namespace

struct TokenizerPipeline::Impl {
  explicit Impl(TokenizerJson description)
      : normalizer(std::move(description.normalizer)),
        raw_tokens(tokens_to_find(description, normalizer, /*normalized=*/false)),
        normalized_tokens(tokens_to_find(description, normalizer, /*normalized=*/true)),
        pre_tokenizer(std::move(description.steps)),
        decoder(std::move(description.decoder)),
        first_ids(std::move(description.first_ids)),
        last_ids(std::move(description.last_ids)),
        is_special(description.pieces.size(), false),
        pieces(std::move(description.pieces)) {
    for (const AddedToken& token : description.added)
      is_special[static_cast<size_t>(token.id)] = token.special;
    // Like the library, decodes an added token that is `normalized` to its normal form.
    Normalizer::Scratch scratch;
    for (const AddedToken& token : description.added) {
      if (token.normalized)
        normal_texts[static_cast<size_t>(token.id)] = normalizer.apply(token.content, scratch);
    }
    if (description.is_byte_level) {
      bpe.emplace(std::move(description.model));
    } else {
      character_bpe.emplace(description.model);
    }
  }

  // The token of an id, as the decoder gets it.
  const std::string& text(size_t id) const {
    const auto found = normal_texts.find(id);
    return found == normal_texts.end() ? pieces[id] : found->second;
  }

  void encode_part(std::string_view text, bool is_first, EncodeScratch& scratch) {
    if (bpe) {
      pre_tokenizer.split_in_batches(
          text, scratch.pre_tokenizer,
          [&](const PreTokenizer::Batch& batch) {
            bpe->encode_words(batch, scratch.bpe, scratch.ids);
          },
          is_first);
      return;
    }
    pre_tokenizer.split(
        text, scratch.pre_tokenizer,
        [&](std::string_view word) {
          scratch.word_ids.clear();
          character_bpe->encode_word(word, scratch.character_bpe, scratch.word_ids);
          for (const int32_t id : scratch.word_ids) scratch.ids.push_back(id);
        },
        is_first);
  }

  // Appends the id of each part that is an added token, and has `encode_text` encode the others.
  template <typename EncodeText>
  static void encode_parts(std::string_view text, const std::vector<AddedTokens::Part>& parts,
                           IdBuffer& ids, const EncodeText& encode_text) {
    for (const AddedTokens::Part& part : parts) {
      if (part.token != nullptr) {
        ids.push_back(part.token->id);
      } else {
        encode_text(text.substr(part.begin, part.end - part.begin), part.begin == 0);
      }
    }
  }

  void encode_raw_part(std::string_view text, bool is_first, EncodeScratch& scratch) {
    text = normalizer.apply(text, scratch.normalizer);
    if (text.empty()) return;
    if (normalized_tokens.empty()) {
      encode_part(text, is_first, scratch);
      return;
    }
    normalized_tokens.find(text, scratch.normal_parts);
    encode_parts(text, scratch.normal_parts, scratch.ids,
                 [&](std::string_view part, bool is_front) {
                   encode_part(part, is_first && is_front, scratch);
                 });
  }

  // Leaves the ids in scratch.ids.
  void encode(std::string_view text, EncodeScratch& scratch) {
    scratch.ids.clear();
    if (bpe) {
      scratch.bpe.exchange(words);
    } else {
      scratch.character_bpe.exchange(words);
    }
    if (!is_utf8(text)) text = scratch.valid = replacing_malformed(text);
    if (text.empty()) return;
    raw_tokens.find(text, scratch.parts);
    encode_parts(text, scratch.parts, scratch.ids, [&](std::string_view part, bool is_first) {
      encode_raw_part(part, is_first, scratch);
    });
  }

  Normalizer normalizer;
  AddedTokens raw_tokens;
  AddedTokens normalized_tokens;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  // One of these two is set.
  std::optional<ByteBpe> bpe;
  std::optional<CharacterBpe> character_bpe;
  std::vector<int32_t> first_ids;
  std::vector<int32_t> last_ids;
  std::vector<bool> is_special;                // by id
  std::vector<std::string> pieces;             // by id, as the file spells them
  std::map<size_t, std::string> normal_texts;  // by id, of added tokens that are normalized
  SharedWords words;
  ScratchPool<EncodeScratch> scratches;
};

TokenizerPipeline::TokenizerPipeline(TokenizerJson description)
    : impl_(std::make_unique<Impl>(std::move(description))) {}
TokenizerPipeline::~TokenizerPipeline() = default;

int64_t TokenizerPipeline::vocab_size() const { return static_cast<int64_t>(impl_->pieces.size()); }

int32_t TokenizerPipeline::id_of(std::string_view token) const {
  const auto found = std::find(impl_->pieces.begin(), impl_->pieces.end(), token);
  const bool is_there = found != impl_->pieces.end() && !token.empty();
  return is_there ? static_cast<int32_t>(found - impl_->pieces.begin()) : -1;
}

const std::string& TokenizerPipeline::piece(int32_t id) const {
  return impl_->pieces[static_cast<size_t>(id)];
}

const std::vector<int32_t>& TokenizerPipeline::first_ids() const { return impl_->first_ids; }
const std::vector<int32_t>& TokenizerPipeline::last_ids() const { return impl_->last_ids; }

std::vector<int32_t> TokenizerPipeline::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  impl_->scratches.with([&](EncodeScratch& scratch) {
    impl_->encode(text, scratch);
    const std::span<const int32_t> found = scratch.ids.ids();
    ids.assign(found.begin(), found.end());
  });
  return ids;
}

std::string TokenizerPipeline::decode(const std::vector<int32_t>& ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const auto index = static_cast<size_t>(id);
    if (!impl_->is_special[index] && !impl_->text(index).empty())
      tokens.push_back(impl_->text(index));
  }
  return impl_->decoder.decode(std::move(tokens));
}

bool TokenizerPipeline::is_in_run(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  return impl_->decoder.has_byte_fallback() && !impl_->is_special[index] &&
         fallback_byte(impl_->text(index)).has_value();
}

std::vector<uint32_t> TokenizerPipeline::piece_bytes() const {
  std::vector<uint32_t> sizes;
  // Decoders take a space away from the first token alone.
  const auto guard =
      std::find_if(impl_->pieces.begin(), impl_->pieces.end(), [](const std::string& piece) {
        return piece.size() == 1 && piece.front() >= 'a' && piece.front() <= 'z';
      });
  for (size_t id = 0; id < impl_->pieces.size(); ++id) {
    const std::string& piece = impl_->text(id);
    if (impl_->is_special[id] || piece.empty()) {
      sizes.push_back(0);
    } else if (impl_->bpe) {
      sizes.push_back(static_cast<uint32_t>(bytes_of_token(piece).value_or(piece).size()));
    } else if (is_in_run(static_cast<int32_t>(id))) {
      sizes.push_back(1);
    } else if (guard == impl_->pieces.end()) {
      sizes.push_back(static_cast<uint32_t>(impl_->decoder.decode({piece}).size()));
    } else {
      sizes.push_back(static_cast<uint32_t>(impl_->decoder.decode({*guard, piece}).size() - 1));
    }
  }
  return sizes;
}

std::vector<int32_t> TokenizerPipeline::space_in_bytes() const {
  // If the file marks spaces and has no token for the mark: the tokens of the mark's bytes.
  constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581
  if (impl_->bpe || id_of(kMark) >= 0) return {};
  std::vector<int32_t> ids;
  for (const char byte : kMark) {
    const int32_t id = id_of(fallback_token(static_cast<unsigned char>(byte)));
    if (id < 0) return {};
    ids.push_back(id);
  }
  std::vector<int32_t> spelled = encode("a ");
  const bool is_spelled =
      spelled.size() >= ids.size() && std::equal(ids.rbegin(), ids.rend(), spelled.rbegin());
  return is_spelled ? ids : std::vector<int32_t>{};
}

}  // namespace lmtrain
