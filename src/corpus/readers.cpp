// read_documents of documents.h: one function per format.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "corpus/documents.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<void(std::string_view, int64_t)>;

// Lines of a file of any size, without "\n" or "\r\n"; holds one line and a buffer.
class LineReader {
 public:
  explicit LineReader(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail("open");
  }
  ~LineReader() { ::close(fd_); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The view is valid until the next call.
  bool next(std::string_view& line) {
    size_t scanned = begin_;
    for (;;) {
      const void* newline = std::memchr(buffer_.data() + scanned, '\n', end_ - scanned);
      if (newline != nullptr) {
        const auto end = static_cast<size_t>(static_cast<const char*>(newline) - buffer_.data());
        line = std::string_view(buffer_).substr(begin_, end - begin_);
        if (line.ends_with('\r')) line.remove_suffix(1);
        begin_ = end + 1;
        return true;
      }
      const size_t pending = end_ - begin_;
      if (!fill()) {
        line = std::string_view(buffer_).substr(begin_, pending);
        begin_ = end_;
        return pending > 0;
      }
      scanned = begin_ + pending;
    }
  }

 private:
  // Moves what is pending to the front and reads on; false at the end of the file.
  bool fill() {
    constexpr size_t kChunk = size_t{1} << 20;
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    // Doubling keeps one enormous line linear.
    if (buffer_.size() - end_ < kChunk) buffer_.resize(std::max(2 * buffer_.size(), kChunk));
    ssize_t got = 0;
    do {
      got = ::read(fd_, buffer_.data() + end_, buffer_.size() - end_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail("read");
    end_ += static_cast<size_t>(got);
    return got > 0;
  }

  [[noreturn]] void fail(std::string_view action) const {
    throw Error(ErrorKind::kIo,
                str("cannot ", action, " ", path_.string(), ": ", std::strerror(errno)));
  }

  fs::path path_;
  int fd_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

NoDocuments read_lines(const fs::path& path, const Visit& visit) {
  LineReader reader(path);
  int64_t position = 0;
  NoDocuments skipped;
  for (std::string_view line; reader.next(line);) {
    if (line.empty()) {
      ++skipped.blank_lines;
    } else {
      visit(line, position++);
    }
  }
  return skipped;
}

// What the JSON library says, without its own numbering.
std::string parse_problem(const nlohmann::json::parse_error& error) {
  const std::string_view message = error.what();
  const size_t place = message.find("column");
  const size_t colon = place == std::string_view::npos ? place : message.find(": ", place);
  constexpr size_t kLongest = 200;  // it quotes the text, which may be long
  return std::string(
      (colon == std::string_view::npos ? message : message.substr(colon + 2)).substr(0, kLongest));
}

std::string field_problem(const nlohmann::json& object, const std::string& field) {
  if (!object.is_object())
    return str("the line holds ", object.type_name(), " instead of an object");
  if (object.contains(field)) {
    return str("field \"", field, "\" is ", object.at(field).type_name(), " instead of a string");
  }
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  const std::string nearest = nearest_word(field, names);
  if (!nearest.empty())
    return str("no field \"", field, "\"; did you mean \"", nearest, "\" (data.text_field)?");
  return str("no field \"", field, "\" (data.text_field); the line has: ", join(names, ", "));
}

NoDocuments read_json_lines(const fs::path& path, const std::string& field, const Visit& visit) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  LineReader reader(path);
  int64_t position = 0;
  NoDocuments skipped;
  int64_t line_number = 0;
  for (std::string_view line; reader.next(line);) {
    if (++line_number == 1 && line.starts_with(kByteOrderMark))
      line.remove_prefix(kByteOrderMark.size());
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      ++skipped.blank_lines;
      continue;
    }
    nlohmann::json object;
    try {
      object = nlohmann::json::parse(line);
    } catch (const nlohmann::json::parse_error& error) {
      throw Error(ErrorKind::kData,
                  str(path.string(), ":", line_number, ": not JSON at column ", error.byte, ": ",
                      parse_problem(error), "; every line must be one JSON object"));
    }
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (found == object.end() || !found->is_string()) {
      throw Error(ErrorKind::kData,
                  str(path.string(), ":", line_number, ": ", field_problem(object, field)));
    }
    visit(found->get_ref<const std::string&>(), position++);
  }
  return skipped;
}

}  // namespace

NoDocuments read_documents(const SourceFile& file, const std::string& format,
                           const std::string& text_field, const Visit& visit) {
  const std::string resolved = resolve_format(file.path, format);
  if (resolved == "lines") return read_lines(file.path, visit);
  if (resolved == "jsonl") return read_json_lines(file.path, text_field, visit);
  visit(read_file(file.path), 0);
  return {};
}

}  // namespace lmtrain
