#include "base/progress.h"

#include <algorithm>
#include <cmath>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

bool has_command(std::string_view line) {
  for (const char* command : {"train ", "resume ", "eval ", "generate ", "export ", "average ",
                              "prepare ", "plan ", "bench ", "report ", "config ", "forecast "}) {
    if (line.find(str("lmtrain ", command)) != std::string_view::npos) return true;
  }
  return line.find(": cp ") != std::string_view::npos;
}

// Returns where the text of a line begins: after its label of ten columns, or after its
// indentation.
size_t text_column(std::string_view line) {
  constexpr size_t kLabel = 11, kFurther = 2;
  if (line.starts_with(' ')) return std::min(line.find_first_not_of(' '), line.size());
  const bool has_label = line.size() > kLabel && line[kLabel - 1] == ' ' && line[kLabel] != ' ';
  return has_label ? kLabel : kFurther;
}

std::string wrapped_line(std::string_view line, size_t columns) {
  if (columns_of(line) <= columns || has_command(line)) return std::string(line);
  constexpr size_t kLeastText = 20;
  const size_t column = text_column(line);
  const std::string indent(column + kLeastText <= columns ? column : 2, ' ');
  std::string out;
  size_t used = 0;  // columns of the line under way
  for (size_t at = 0; at < line.size();) {
    const size_t word = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = std::min(line.find(' ', word), line.size());
    const size_t width = columns_of(line.substr(word, end - word));
    const bool fits = used + (word - at) + width <= columns;
    if (fits || used <= indent.size() || indent.size() + width > columns) {
      out += line.substr(at, end - at);
      used += word - at + width;
    } else {
      out += str("\n", indent, line.substr(word, end - word));
      used = indent.size() + width;
    }
    at = end;
  }
  return out;
}

}  // namespace

std::string wrapped_lines(std::string_view text, size_t columns) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += wrapped_line(text.substr(begin, end - begin), columns);
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

std::string whole_line(const std::vector<LinePart>& parts) {
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const LinePart& part : parts) texts.push_back(part.text);
  return join(texts, "  ");
}

std::string fitted_line(std::vector<LinePart> parts, size_t columns) {
  const auto less = [](const LinePart& a, const LinePart& b) { return a.drop < b.drop; };
  while (!parts.empty() && whole_line(parts).size() > columns) {
    const auto next = std::max_element(parts.begin(), parts.end(), less);
    if (next->drop == 0) break;
    parts.erase(next);
  }
  return whole_line(parts).substr(0, columns);
}

ProgressBar::ProgressBar(std::string action, uint64_t total_bytes)
    : action_(std::move(action)), total_bytes_(total_bytes) {}

ProgressBar::~ProgressBar() { log_progress_done(); }

void ProgressBar::reach(uint64_t bytes, uint64_t size, uint64_t& counted) {
  const uint64_t now = std::clamp(bytes, counted, std::max(counted, size));
  advance(now - counted);
  counted = now;
}

void ProgressBar::finish(std::string_view result) {
  log_note(str(action_, "  ", result, " in ", format_duration(seconds_since(started_))));
}

void ProgressBar::advance(uint64_t bytes) {
  throw_if_stopped();
  done_bytes_ += bytes;
  const Clock::time_point now = Clock::now();
  if (now - printed_ < std::chrono::milliseconds(500)) return;
  printed_ = now;
  // A log file gets a line a minute.
  const bool keep = now - kept_ >= std::chrono::minutes(1);
  if (keep) kept_ = now;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  const double rate = static_cast<double>(done_bytes_) / elapsed;
  const uint64_t done = skipped_bytes_ + done_bytes_;
  const uint64_t total = std::max(total_bytes_, done);
  const double percent =
      100.0 * static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1));
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0.0;
  log_progress(str(action_, ": ", format_bytes(done), " of ", format_bytes(total), " (",
                   std::floor(percent), "%), ", format_bytes(static_cast<uint64_t>(rate)), "/s, ",
                   format_duration(left), " left"),
               keep);
}

PercentLine::PercentLine(std::string action, int64_t total)
    : action_(std::move(action)), total_(std::max<int64_t>(1, total)) {}

PercentLine::~PercentLine() { log_progress_done(); }

void PercentLine::show(int64_t done) {
  const Clock::time_point now = Clock::now();
  if (now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  log_progress(str(action_, "  ", 100 * done / total_, " %"), /*keep=*/false);
}

}  // namespace lmtrain
