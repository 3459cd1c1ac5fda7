// Sentences in memory as sentencepiece's trainer takes them, for tests that train a model.
#pragma once

#include <sentencepiece_trainer.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lmtrain {

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::vector<std::string> sentences) : sentences_(std::move(sentences)) {}
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> sentences_;
  size_t next_ = 0;
};

}  // namespace lmtrain
