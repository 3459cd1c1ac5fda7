#include "tokenizer/pre_tokenizer.h"

namespace lmtrain {

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {
  std::erase_if(
      steps_, [](const PreTokenizerStep& step) { return !step.regex && !step.adds_prefix_space; });
  for (const PreTokenizerStep& step : steps_) {
    std::optional<SplitScanner> scanner;
    if (step.regex) scanner = SplitScanner::of(step.regex->pattern());
    // A scanner gives matches and what lies between them alike.
    if (scanner && step.removes && !(step.is_inverted && scanner->matches_all())) scanner.reset();
    scanners_.push_back(scanner);
  }
}

void PreTokenizer::split_in_batches(std::string_view text, Scratch& scratch,
                                    const BatchSink& sink) const {
  scratch.prefixed_.resize(steps_.size());
  scratch.pieces_.resize(steps_.size());
  scratch.num_words_ = 0;
  scratch.end_ = text.data() + text.size();
  split_from(0, text, scratch, sink);
  flush(scratch, sink);
}

void PreTokenizer::split(std::string_view text, Scratch& scratch, const Sink& sink) const {
  split_in_batches(text, scratch, [&](const Batch& batch) {
    for (const std::string_view word : batch.words) sink(word);
  });
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
  size_t done = 0;
  if (const std::optional<SplitScanner>& scanner = scanners_[index]) {
    if (index + 1 == steps_.size()) {
      while (done < text.size()) {
        if (scratch.num_words_ == scratch.words_.size()) flush(scratch, sink);
        scratch.num_words_ +=
            scanner->scan(text, done, std::span(scratch.words_).subspan(scratch.num_words_));
      }
      return;
    }
    const std::span<std::string_view> pieces = scratch.pieces_[index];
    while (const size_t count = scanner->scan(text, done, pieces)) {
      for (const std::string_view piece : pieces.first(count))
        split_from(index + 1, piece, scratch, sink);
    }
    return;
  }
  const auto piece = [&](size_t begin, size_t end, bool is_match) {
    if (begin == end || (step.removes && is_match != step.is_inverted)) return;
    split_from(index + 1, text.substr(begin, end - begin), scratch, sink);
  };
  SplitRegex::Match match{};
  while (done < text.size() && step.regex->find(text, done, scratch.matcher_, match)) {
    piece(done, match.begin, false);
    piece(match.begin, match.end, true);
    done = match.end;
  }
  piece(done, text.size(), false);
}

}  // namespace lmtrain
