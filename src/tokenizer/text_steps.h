// The normalizers and decoders of Hugging Face's `tokenizers`, each a list of steps. A Normalizer
// changes text before it is cut into words; a Decoder makes text of tokens. Both are immutable, so
// threads may share them. Both throw the errors of Replacement::apply().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split_regex.h"
#include "tokenizer/unicode_form.h"

namespace lmtrain {

// Replaces each match of a literal text or of a regular expression.
struct Replacement {
  std::string literal;  // is searched for if `regex` is not set; not empty
  std::optional<SplitRegex> regex;
  std::string content;

  // Appends `text`, which is valid UTF-8, to `out` with the matches replaced. `matcher` is made
  // when it is needed. Throws Error(kData) like SplitRegex::find().
  void apply(std::string_view text, std::optional<SplitRegex::Matcher>& matcher,
             std::string& out) const;
};

struct NormalizerStep {
  enum class Kind : uint8_t { kForm, kLowercase, kPrepend, kReplace };
  Kind kind = Kind::kForm;
  UnicodeForm form = UnicodeForm::kNfc;
  Replacement replacement;  // kPrepend: its content
};

class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  class Scratch {
   private:
    friend class Normalizer;
    std::optional<SplitRegex::Matcher> matcher_;
    std::string buffers_[2];
  };
  // Returns `text`, which is valid UTF-8, after all steps. The result views `text` or `scratch`;
  // `text` must not lie in `scratch`.
  std::string_view apply(std::string_view text, Scratch& scratch) const;

 private:
  std::vector<NormalizerStep> steps_;
};

struct DecoderStep {
  enum class Kind : uint8_t { kByteLevel, kReplace, kByteFallback, kFuse, kStrip, kMetaspace };
  Kind kind = Kind::kByteLevel;
  Replacement replacement;
  std::string character;    // kStrip: is removed; kMetaspace: becomes a space
  int32_t start = 0;        // kStrip: at most so many from the beginning of each token
  int32_t stop = 0;         // kStrip: at most so many from its end
  bool has_prefix = false;  // kMetaspace: in the first token `character` is removed instead
};

class Decoder {
 public:
  explicit Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {}

  // Returns the text of the tokens, which are valid UTF-8.
  std::string decode(std::vector<std::string> tokens) const;
  // Returns whether a step decodes runs of byte tokens such as "<0xE2>".
  bool has_byte_fallback() const;

 private:
  std::vector<DecoderStep> steps_;
};

// Returns the byte of a token such as "<0xE2>"; nothing for any other token.
std::optional<unsigned char> fallback_byte(std::string_view token);
// Returns the token that an encoder looks for, "<0xE2>".
std::string fallback_token(unsigned char byte);

}  // namespace lmtrain
