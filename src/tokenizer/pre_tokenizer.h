// Cuts text into the words that BPE is applied to: the pre-tokenizers of Hugging Face's
// `tokenizers` that byte-level models use, one after another. Each cuts the pieces of the one
// before, and sees nothing beyond its piece.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split_regex.h"

namespace lmtrain {

struct PreTokenizerStep {
  bool adds_prefix_space = false;   // before the step; not to a piece that begins with a space
  std::optional<SplitRegex> regex;  // none: nothing is cut
  std::string pattern;              // of the regex, as the tokenizer's file spells it
  // Behaviour of the matches: they are pieces by themselves, or are removed. If inverted, that is
  // so for what lies between matches.
  bool removes = false;
  bool is_inverted = false;
};

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  class Scratch {
   private:
    friend class PreTokenizer;
    SplitRegex::Matcher matcher_;
    std::vector<std::string> prefixed_;  // by step
  };
  using Sink = std::function<void(std::string_view word)>;
  // Passes the words of `text`, which is valid UTF-8, to `sink`, in their order; none is empty. A
  // word is UTF-8, not yet in the alphabet of bytes, and valid during the call of `sink` alone.
  // Throws Error(kData) like SplitRegex::find().
  void split(std::string_view text, Scratch& scratch, const Sink& sink) const;

 private:
  void split_from(size_t step, std::string_view text, Scratch& scratch, const Sink& sink) const;

  std::vector<PreTokenizerStep> steps_;
};

}  // namespace lmtrain
