// While a PrintableOutput exists, no text that is written to its stream can steer the terminal:
// shown() of text.h spells the bytes that could. Newlines and tabs stay, and JSON keeps its values.
// Names of files, keys and texts of documents reach std::cout in many places.
#pragma once

#include <iosfwd>
#include <memory>
#include <streambuf>

namespace lmtrain {

class PrintableOutput {
 public:
  // `stream` must outlive the object.
  explicit PrintableOutput(std::ostream& stream);
  ~PrintableOutput();
  PrintableOutput(const PrintableOutput&) = delete;
  PrintableOutput& operator=(const PrintableOutput&) = delete;

 private:
  std::ostream& stream_;
  std::streambuf* raw_;
  std::unique_ptr<std::streambuf> printable_;
};

}  // namespace lmtrain
