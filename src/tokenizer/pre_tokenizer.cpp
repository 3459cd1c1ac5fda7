#include "tokenizer/pre_tokenizer.h"

namespace lmtrain {

void PreTokenizer::split(std::string_view text, Scratch& scratch, const Sink& sink) const {
  scratch.prefixed_.resize(steps_.size());
  split_from(0, text, scratch, sink);
}

void PreTokenizer::split_from(size_t index, std::string_view text, Scratch& scratch,
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
  if (!step.regex) {
    split_from(index + 1, text, scratch, sink);
    return;
  }
  const auto piece = [&](size_t begin, size_t end, bool is_match) {
    if (begin == end || (step.removes && is_match != step.is_inverted)) return;
    split_from(index + 1, text.substr(begin, end - begin), scratch, sink);
  };
  size_t done = 0;
  SplitRegex::Match match{};
  while (done < text.size() && step.regex->find(text, done, scratch.matcher_, match)) {
    piece(done, match.begin, false);
    piece(match.begin, match.end, true);
    done = match.end;
  }
  piece(done, text.size(), false);
}

}  // namespace lmtrain
