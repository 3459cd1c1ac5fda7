#include "base/printable_output.h"

#include <ostream>
#include <string>

#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf* raw) : raw_(raw) {}

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char byte = traits_type::to_char_type(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* bytes, std::streamsize size) override {
    pending_.append(bytes, static_cast<size_t>(size));
    const size_t whole = pending_.size() - unfinished();
    const bool is_out = put(std::string_view(pending_).substr(0, whole));
    pending_.erase(0, whole);
    return is_out ? size : 0;
  }
  int sync() override {
    const bool is_out = put(pending_);
    pending_.clear();
    return is_out ? raw_->pubsync() : -1;
  }

 private:
  // Returns how many bytes at the end may begin a character whose other bytes are still to come.
  size_t unfinished() const {
    size_t size = 0;
    while (size < 3 && size < pending_.size() &&
           is_utf8_continuation(pending_[pending_.size() - 1 - size]))
      ++size;
    if (size == pending_.size()) return 0;
    const auto lead = static_cast<unsigned char>(pending_[pending_.size() - 1 - size]);
    const size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    return size + 1 < wanted ? size + 1 : 0;
  }
  bool put(std::string_view text) {
    const std::string out = shown(text, /*keeps_lines=*/true);
    const auto size = static_cast<std::streamsize>(out.size());
    return raw_->sputn(out.data(), size) == size;
  }

  std::streambuf* raw_;
  std::string pending_;
};

}  // namespace

PrintableOutput::PrintableOutput(std::ostream& stream)
    : stream_(stream), raw_(stream.rdbuf()), printable_(std::make_unique<PrintableBuffer>(raw_)) {
  stream_.rdbuf(printable_.get());
}

PrintableOutput::~PrintableOutput() {
  printable_->pubsync();
  stream_.rdbuf(raw_);
}

}  // namespace lmtrain
