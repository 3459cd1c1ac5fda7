// Cuts text into the words that BPE is applied to: the pre-tokenizers of Hugging Face's
// `tokenizers` that BPE models use, one after another. Each cuts the pieces of the one before, and
// sees nothing beyond its piece. A SplitScanner cuts by the patterns that it knows, and SplitRegex
// by any other.
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
  bool adds_prefix_space = false;   // before the step; not to a piece that begins with a space
  std::optional<SplitRegex> regex;  // none: nothing is cut
  std::string pattern;              // of the regex, as the tokenizer's file spells it
  // Behaviour of the matches: they are pieces by themselves, or are removed. If inverted, that is
  // so for what lies between matches.
  bool removes = false;
  bool is_inverted = false;
  // With which neighbour a match is one piece. kWithMatches: all neighbours of one kind are one.
  enum class Merge : uint8_t { kNone, kPrevious, kNext, kWithMatches };
  Merge merge = Merge::kNone;
  // The pieces are spelled in the alphabet of bytes for the steps behind it.
  bool spells_bytes = false;
  // Metaspace, before anything is cut: a character for each space, and where it stands before a
  // piece that does not begin with it. kFirst: before the piece at the beginning of the text.
  enum class Prefix : uint8_t { kNever, kFirst, kAlways };
  std::string space;  // empty: spaces stay
  Prefix prefix = Prefix::kNever;
};

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps);

  // Words of one text, in their order; none is empty. A word is not in the alphabet of bytes. It is
  // UTF-8 unless a step spells bytes. All lie in memory that can be read up to `end`.
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
    std::vector<std::array<std::string_view, kBatch>> pieces_;  // by step
    std::array<std::string_view, kBatch> words_;
    size_t num_words_ = 0;
    const char* end_ = nullptr;
  };
  using BatchSink = std::function<void(const Batch& batch)>;
  // Passes the words of `text`, which is valid UTF-8, to `sink`, in their order. They are valid
  // during the call of `sink` alone. `is_first`: the text is the beginning of a document. Throws
  // Error(kData) like SplitRegex::find().
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
  bool only_cuts_ = true;                              // no step changes or joins pieces
};

}  // namespace lmtrain
