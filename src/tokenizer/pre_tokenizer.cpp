#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "tokenizer/byte_alphabet.h"

namespace lmtrain {
namespace {

using Merge = PreTokenizerStep::Merge;
using Prefix = PreTokenizerStep::Prefix;

// Whether a span begins a new split, as in `tokenizers`: a match that follows a match is a split by
// itself, unless matches are merged with each other.
bool begins_split(Merge merge, bool is_match, bool after_match) {
  if (merge == Merge::kWithMatches) return is_match != after_match;
  return !is_match || after_match;
}

// Joins the spans that are one split, in place.
void merge_spans(Merge merge, std::vector<PreTokenizer::Span>& spans) {
  if (merge == Merge::kNext) std::reverse(spans.begin(), spans.end());
  size_t count = 0;
  bool after_match = false;
  for (const PreTokenizer::Span span : spans) {
    if (count == 0 || begins_split(merge, span.is_match, after_match)) {
      spans[count++] = span;
    } else {
      PreTokenizer::Span& split = spans[count - 1];
      split.begin = std::min(split.begin, span.begin);
      split.end = std::max(split.end, span.end);
    }
    after_match = span.is_match;
  }
  spans.resize(count);
  if (merge == Merge::kNext) std::reverse(spans.begin(), spans.end());
}

void replace_spaces(std::string_view text, const PreTokenizerStep& step, bool is_first,
                    std::string& out) {
  const bool begins_with_space = text.front() == ' ' || text.starts_with(step.space);
  const bool has_prefix =
      step.prefix == Prefix::kAlways || (step.prefix == Prefix::kFirst && is_first);
  out.clear();
  if (has_prefix && !begins_with_space) out = step.space;
  for (size_t found = 0; (found = text.find(' ')) != std::string_view::npos;) {
    out += text.substr(0, found);
    out += step.space;
    text.remove_prefix(found + 1);
  }
  out += text;
}

// Calls take(begin, end, is_match) for each match of the step's regex, and for the text before each
// and behind the last match, which may be empty. Without a regex all is text.
template <class Take>
void for_each_span(const PreTokenizerStep& step, std::string_view text,
                   SplitRegex::Matcher& matcher, const Take& take) {
  size_t done = 0;
  SplitRegex::Match match{};
  while (step.regex && done < text.size() && step.regex->find(text, done, matcher, match)) {
    take(done, match.begin, false);
    take(match.begin, match.end, true);
    done = match.end;
  }
  take(done, text.size(), false);
}

}  // namespace

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {
  std::erase_if(steps_, [](const PreTokenizerStep& step) {
    return !step.regex && !step.adds_prefix_space && step.space.empty() && !step.spells_bytes;
  });
  spells_bytes_ =
      std::ranges::any_of(steps_, [](const PreTokenizerStep& step) { return step.spells_bytes; });
  only_cuts_ = !spells_bytes_ && std::ranges::all_of(steps_, [](const PreTokenizerStep& step) {
    return step.merge == Merge::kNone && step.space.empty();
  });
  for (const PreTokenizerStep& step : steps_) {
    std::optional<SplitScanner> scanner;
    if (step.regex) scanner = SplitScanner::of(step.regex->pattern());
    // A scanner does not tell matches from the text between them.
    if (scanner && step.removes && !(step.is_inverted && scanner->matches_all())) scanner.reset();
    scanners_.push_back(scanner);
  }
}

void PreTokenizer::split_in_batches(std::string_view text, Scratch& scratch, const BatchSink& sink,
                                    bool is_first) const {
  if (!only_cuts_) {
    split(
        text, scratch,
        [&](std::string_view word) {
          sink({{&word, 1}, word.data() + word.size()});
        },
        is_first);
    return;
  }
  scratch.prefixed_.resize(steps_.size());
  scratch.splits_.resize(steps_.size());
  scratch.num_words_ = 0;
  scratch.end_ = text.data() + text.size();
  split_from(0, text, scratch, sink);
  flush(scratch, sink);
}

void PreTokenizer::split(std::string_view text, Scratch& scratch, const Sink& sink,
                         bool is_first) const {
  if (only_cuts_) {
    split_in_batches(text, scratch, [&](const Batch& batch) {
      for (const std::string_view word : batch.words) sink(word);
    });
    return;
  }
  scratch.prefixed_.resize(steps_.size());
  if (!spells_bytes_) {
    pass_on(0, text, is_first, scratch, sink);
    return;
  }
  scratch.spelled_.resize(steps_.size());
  pass_on(0, text, is_first, scratch,
          [&](std::string_view word) { sink(bytes_of_token(word).value()); });
}

void PreTokenizer::flush(Scratch& scratch, const BatchSink& sink) {
  if (scratch.num_words_ > 0)
    sink({std::span(scratch.words_).first(scratch.num_words_), scratch.end_});
  scratch.num_words_ = 0;
}

void PreTokenizer::split_from(size_t index, std::string_view text, Scratch& scratch,
                              const BatchSink& sink) const {
  if (text.empty()) return;
  if (index == steps_.size()) {
    if (scratch.num_words_ == scratch.words_.size()) flush(scratch, sink);
    scratch.words_[scratch.num_words_++] = text;
    return;
  }
  if (!steps_[index].adds_prefix_space || text.front() == ' ') {
    cut(index, text, scratch, sink);
    return;
  }
  // A batch lies in one text alone.
  flush(scratch, sink);
  const char* const end = scratch.end_;
  std::string& prefixed = scratch.prefixed_[index];
  prefixed = ' ';
  prefixed += text;
  scratch.end_ = prefixed.data() + prefixed.size();
  cut(index, prefixed, scratch, sink);
  flush(scratch, sink);
  scratch.end_ = end;
}

void PreTokenizer::cut(size_t index, std::string_view text, Scratch& scratch,
                       const BatchSink& sink) const {
  const PreTokenizerStep& step = steps_[index];
  if (!step.regex) {
    split_from(index + 1, text, scratch, sink);
    return;
  }
  if (const std::optional<SplitScanner>& scanner = scanners_[index]) {
    size_t done = 0;
    if (index + 1 == steps_.size()) {
      while (done < text.size()) {
        if (scratch.num_words_ == scratch.words_.size()) flush(scratch, sink);
        scratch.num_words_ +=
            scanner->scan(text, done, std::span(scratch.words_).subspan(scratch.num_words_));
      }
      return;
    }
    const std::span<std::string_view> splits = scratch.splits_[index];
    while (const size_t count = scanner->scan(text, done, splits)) {
      for (const std::string_view split : splits.first(count))
        split_from(index + 1, split, scratch, sink);
    }
    return;
  }
  for_each_span(step, text, scratch.matcher_, [&](size_t begin, size_t end, bool is_match) {
    if (begin == end || (step.removes && is_match != step.is_inverted)) return;
    split_from(index + 1, text.substr(begin, end - begin), scratch, sink);
  });
}

void PreTokenizer::pass_on(size_t index, std::string_view text, bool is_first, Scratch& scratch,
                           const Sink& sink) const {
  if (text.empty()) return;
  if (index == steps_.size()) {
    sink(text);
    return;
  }
  const PreTokenizerStep& step = steps_[index];
  if (step.adds_prefix_space && text.front() != ' ') {
    std::string& prefixed = scratch.prefixed_[index];
    prefixed = ' ';
    prefixed += text;
    text = prefixed;
  }
  if (!step.space.empty()) {
    replace_spaces(text, step, is_first, scratch.prefixed_[index]);
    text = scratch.prefixed_[index];
  }
  if (step.merge != Merge::kNone) {
    split_merging(index, text, is_first, scratch, sink);
    return;
  }
  for_each_span(step, text, scratch.matcher_, [&](size_t begin, size_t end, bool is_match) {
    if (begin == end || (step.removes && is_match != step.is_inverted)) return;
    std::string_view part = text.substr(begin, end - begin);
    if (step.spells_bytes) {
      std::string& spelled = scratch.spelled_[index];
      spelled.clear();
      for (const char byte : part) spelled += token_of_byte(static_cast<unsigned char>(byte));
      part = spelled;
    }
    pass_on(index + 1, part, is_first && begin == 0, scratch, sink);
  });
}

void PreTokenizer::split_merging(size_t index, std::string_view text, bool is_first,
                                 Scratch& scratch, const Sink& sink) const {
  const PreTokenizerStep& step = steps_[index];
  scratch.spans_.resize(steps_.size());
  std::vector<Span>& spans = scratch.spans_[index];
  spans.clear();
  for_each_span(step, text, scratch.matcher_, [&](size_t begin, size_t end, bool is_match) {
    if (begin != end) spans.push_back({begin, end, is_match != step.is_inverted});
  });
  merge_spans(step.merge, spans);
  for (const Span& span : spans) {
    pass_on(index + 1, text.substr(span.begin, span.end - span.begin), is_first && span.begin == 0,
            scratch, sink);
  }
}

}  // namespace lmtrain
