#include "tokenizer/byte_level_tokenizer.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/nfc.h"
#include "tokenizer/scratch_pool.h"

namespace lmtrain {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct EncodeScratch {
  ByteBpe::Scratch bpe;
  PreTokenizer::Scratch pre_tokenizer;
  std::string valid;
  std::string normal;
  IdBuffer ids;
  std::vector<AddedTokens::Part> parts;
  std::vector<AddedTokens::Part> normal_parts;
};

// The added tokens that are looked for in text as it is, or in normalised text; there special ones
// come first.
std::vector<AddedToken> tokens_to_find(const TokenizerJson& description, bool normalized) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : description.added) {
    if (token.normalized != normalized) continue;
    std::string buffer;
    if (normalized && description.normalizes)
      token.content = std::string(to_nfc(token.content, buffer));
    tokens.push_back(std::move(token));
  }
  std::stable_partition(tokens.begin(), tokens.end(),
                        [](const AddedToken& token) { return token.special; });
  return tokens;
}

// How many bytes of `text`, which begins with no valid character, are the maximal beginning of one
// (Unicode, section 3.9); at least 1.
size_t maximal_part(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const size_t size = first < 0xC2 || first > 0xF4 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  size_t length = 1;
  while (length < size && length < text.size() && is_utf8_continuation(text[length])) {
    if (length == 1 && ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
                        (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90)))
      break;
    ++length;
  }
  return length;
}

// A copy in which each maximal part of a character is U+FFFD.
std::string with_parts_replaced(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out += kReplacement;
    text.remove_prefix(maximal_part(text));
  }
}

}  // namespace

struct ByteLevelTokenizer::Impl {
  explicit Impl(TokenizerJson description)
      : bpe(description.model),
        raw_tokens(tokens_to_find(description, /*normalized=*/false)),
        normalized_tokens(tokens_to_find(description, /*normalized=*/true)),
        pre_tokenizer(std::move(description.steps)),
        normalizes(description.normalizes),
        first_ids(std::move(description.first_ids)),
        last_ids(std::move(description.last_ids)),
        is_special(description.pieces.size(), false),
        pieces(std::move(description.pieces)) {
    for (const AddedToken& token : description.added)
      is_special[static_cast<size_t>(token.id)] = token.special;
    texts.reserve(pieces.size());
    for (const std::string& piece : pieces) texts.push_back(bytes_of_token(piece).value_or(piece));
  }

  void encode_part(std::string_view text, EncodeScratch& scratch) {
    pre_tokenizer.split_in_batches(text, scratch.pre_tokenizer,
                                   [&](const PreTokenizer::Batch& batch) {
                                     bpe.encode_words(batch, scratch.bpe, scratch.ids);
                                   });
  }

  // Appends the id of each part that is an added token, and has `encode_text` encode the others.
  template <typename EncodeText>
  static void encode_parts(std::string_view text, const std::vector<AddedTokens::Part>& parts,
                           IdBuffer& ids, const EncodeText& encode_text) {
    for (const AddedTokens::Part& part : parts) {
      if (part.token != nullptr) {
        ids.push_back(part.token->id);
      } else {
        encode_text(text.substr(part.begin, part.end - part.begin));
      }
    }
  }

  void encode_raw_part(std::string_view text, EncodeScratch& scratch) {
    if (normalizes) text = to_nfc(text, scratch.normal);
    if (normalized_tokens.empty()) {
      encode_part(text, scratch);
      return;
    }
    normalized_tokens.find(text, scratch.normal_parts);
    encode_parts(text, scratch.normal_parts, scratch.ids,
                 [&](std::string_view part) { encode_part(part, scratch); });
  }

  // Leaves the ids in scratch.ids.
  void encode(std::string_view text, EncodeScratch& scratch) {
    scratch.ids.clear();
    if (!is_utf8(text)) {
      scratch.valid.clear();
      append_replacing_malformed(scratch.valid, text);
      text = scratch.valid;
    }
    if (text.empty()) return;
    raw_tokens.find(text, scratch.parts);
    encode_parts(text, scratch.parts, scratch.ids,
                 [&](std::string_view part) { encode_raw_part(part, scratch); });
  }

  ByteBpe bpe;
  AddedTokens raw_tokens;
  AddedTokens normalized_tokens;
  PreTokenizer pre_tokenizer;
  bool normalizes;
  std::vector<int32_t> first_ids;
  std::vector<int32_t> last_ids;
  std::vector<bool> is_special;     // by id
  std::vector<std::string> pieces;  // by id, as the file spells them
  std::vector<std::string> texts;   // by id, the bytes that they stand for
  ScratchPool<EncodeScratch> scratches;
};

ByteLevelTokenizer::ByteLevelTokenizer(TokenizerJson description)
    : impl_(std::make_unique<Impl>(std::move(description))) {}
ByteLevelTokenizer::~ByteLevelTokenizer() = default;

int64_t ByteLevelTokenizer::vocab_size() const {
  return static_cast<int64_t>(impl_->pieces.size());
}

int32_t ByteLevelTokenizer::id_of(std::string_view token) const {
  const auto found = std::find(impl_->pieces.begin(), impl_->pieces.end(), token);
  const bool is_there = found != impl_->pieces.end() && !token.empty();
  return is_there ? static_cast<int32_t>(found - impl_->pieces.begin()) : -1;
}

const std::string& ByteLevelTokenizer::piece(int32_t id) const {
  return impl_->pieces[static_cast<size_t>(id)];
}

const std::vector<int32_t>& ByteLevelTokenizer::first_ids() const { return impl_->first_ids; }
const std::vector<int32_t>& ByteLevelTokenizer::last_ids() const { return impl_->last_ids; }

std::vector<int32_t> ByteLevelTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  impl_->scratches.with([&](EncodeScratch& scratch) {
    impl_->encode(text, scratch);
    const std::span<const int32_t> found = scratch.ids.ids();
    ids.assign(found.begin(), found.end());
  });
  return ids;
}

std::string ByteLevelTokenizer::decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const auto index = static_cast<size_t>(id);
    if (!impl_->is_special[index]) bytes += impl_->texts[index];
  }
  return is_utf8(bytes) ? bytes : with_parts_replaced(bytes);
}

std::vector<uint32_t> ByteLevelTokenizer::piece_bytes() const {
  std::vector<uint32_t> sizes;
  for (size_t id = 0; id < impl_->texts.size(); ++id)
    sizes.push_back(impl_->is_special[id] ? 0 : static_cast<uint32_t>(impl_->texts[id].size()));
  return sizes;
}

}  // namespace lmtrain
