// While a PrintableOutput exists, what is written to a stream cannot steer the terminal: bytes that
// could are spelled as shown() of text.h spells them. Newlines, tabs and JSON stay what they are.
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
