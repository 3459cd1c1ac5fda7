// Cuts text into the words that BPE is applied to, by the pre-tokenizers of Hugging Face's
// `tokenizers` that BPE models use. Each step cuts the splits of the step before, and sees nothing
// beyond a split; the splits of the last step are the words. A PreTokenizer is immutable; each
// thread needs its own Scratch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split_regex.h"
#include "tokenizer/split_scanner.h"

namespace lmtrain {

struct PreTokenizerStep {
  bool adds_prefix_space = false;   // a space before each split without one in front
  std::optional<SplitRegex> regex;  // none: nothing is cut
  // `removes`: matches are removed; else they are splits. `is_inverted`: text between matches
  // counts as the matches.
  bool removes = false;
  bool is_inverted = false;
  // With which neighbour a match makes one split. kWithMatches: a run of matches is one split, and
  // so is a run of text between matches. All but kNone require a regex.
  enum class Merge : uint8_t { kNone, kPrevious, kNext, kWithMatches };
  Merge merge = Merge::kNone;
  // The next steps get the splits in the alphabet of bytes (byte_alphabet.h).
  bool spells_bytes = false;
  // Metaspace: before a split is cut, `space` replaces each space in it. `prefix` says which splits
  // get `space` in front, if they do not begin with it. kFirst: the first in a document.
  enum class Prefix : uint8_t { kNever, kFirst, kAlways };
  std::string space;  // empty: spaces stay
  Prefix prefix = Prefix::kNever;
};

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps);

  // Words of one text, in order; none is empty, and none is in the alphabet of bytes. Words are
  // UTF-8 unless a step spells bytes. Their memory is readable up to `end`.
  struct Batch {
    std::span<const std::string_view> words;
    const char* end;
  };

  // A part of a text, in bytes.
  struct Span {
    size_t begin;
    size_t end;
    bool is_match;
  };
  class Scratch {
   private:
    friend class PreTokenizer;
    static constexpr size_t kBatch = 256;
    SplitRegex::Matcher matcher_;
    std::vector<std::string> prefixed_;                         // by step
    std::vector<std::string> spelled_;                          // by step
    std::vector<std::vector<Span>> spans_;                      // by step
    std::vector<std::array<std::string_view, kBatch>> splits_;  // by step
    std::array<std::string_view, kBatch> words_;
    size_t num_words_ = 0;
    const char* end_ = nullptr;
  };
  using BatchSink = std::function<void(const Batch& batch)>;
  // Passes the words of `text`, which is valid UTF-8, to `sink`, in order. The words are valid only
  // while `sink` runs. `is_first`: the text is the beginning of a document. Throws Error(kData)
  // like SplitRegex::find().
  void split_in_batches(std::string_view text, Scratch& scratch, const BatchSink& sink,
                        bool is_first = true) const;

  using Sink = std::function<void(std::string_view word)>;
  // Passes the same words one by one.
  void split(std::string_view text, Scratch& scratch, const Sink& sink, bool is_first = true) const;

 private:
  void split_from(size_t step, std::string_view text, Scratch& scratch,
                  const BatchSink& sink) const;
  void cut(size_t step, std::string_view text, Scratch& scratch, const BatchSink& sink) const;
  static void flush(Scratch& scratch, const BatchSink& sink);
  // Does what split_from() does, for steps that do more than cut.
  void pass_on(size_t step, std::string_view text, bool is_first, Scratch& scratch,
               const Sink& sink) const;
  void split_merging(size_t step, std::string_view text, bool is_first, Scratch& scratch,
                     const Sink& sink) const;

  std::vector<PreTokenizerStep> steps_;
  std::vector<std::optional<SplitScanner>> scanners_;  // by step
  bool spells_bytes_ = false;                          // a step does
  bool only_cuts_ = true;                              // no step changes or joins splits
};

}  // namespace lmtrain
