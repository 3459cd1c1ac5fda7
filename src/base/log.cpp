#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text.h"

namespace lmtrain {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";

struct Log {
  std::atomic<int> rank = 0;  // above 0: warnings and errors alone
  std::mutex mutex;           // guards what follows, and stderr
  bool progress_open = false;
  bool warnings_muted = false;  // errors alone
  // It has a mutex of its own, which is taken after `mutex` is given back or before it: where the
  // disk of the file hangs, the first line of each thread is still printed.
  std::mutex file_mutex;
  std::filesystem::path file;      // empty: none yet
  std::vector<std::string> early;  // lines for it, stamped
  bool failed = false;             // said already
};

// Not destroyed: other threads may log while the process ends.
Log& the_log() {
  static Log* log = new Log;
  return *log;
}

// A dumb terminal cannot erase a line.
bool is_terminal() {
  static const bool terminal = [] {
    const char* kind = std::getenv("TERM");
    const bool is_dumb = kind != nullptr && std::string_view(kind) == "dumb";
    return !is_dumb && ::isatty(STDERR_FILENO) != 0;
  }();
  return terminal;
}

size_t terminal_columns() {
  const int64_t columns = terminal_size(STDERR_FILENO).columns;
  return static_cast<size_t>(columns > 1 ? columns : TerminalSize().columns);
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print_line(Log& log, std::string_view line) {
  std::string text(log.progress_open ? kEraseLine : "");
  text.append(line).push_back('\n');
  log.progress_open = false;
  print(text);
}

void append(Log& log, const std::string& text) {
  try {
    append_file(log.file, text, /*sync=*/false);
  } catch (const Error& error) {
    const std::lock_guard lock(log.mutex);
    if (!log.failed)
      print_line(log, str("warning: lines like this one are not kept: ", error.what()));
    log.failed = true;
  }
}

// Each line of the text gets the time. Requires that `mutex` is free.
void keep(Log& log, std::string_view text) {
  const std::lock_guard lock(log.file_mutex);
  const std::string time = utc_timestamp();
  std::string stamped;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    stamped += str(time, " ", text.substr(begin, end - begin), "\n");
    begin = end + 1;
  }
  if (!log.file.empty()) {
    append(log, stamped);
  } else if (log.early.size() < kMostEarlyLines) {
    log.early.push_back(std::move(stamped));
  }
}

constexpr std::string_view kErrorPrefix = "lmtrain: ";

// Names the process in each of its lines, where it is not the first of several.
std::string rank_prefix() {
  const int rank = the_log().rank;
  return rank > 0 ? str("rank ", rank, ": ") : "";
}

void say(std::string_view prefix, std::string_view line) {
  Log& log = the_log();
  std::unique_lock lock(log.mutex);
  if (log.rank > 0 && prefix.empty()) return;
  if (log.warnings_muted && prefix != kErrorPrefix) return;
  const std::string text = str(prefix, rank_prefix(), shown(line, /*keeps_lines=*/true));
  print_line(log, is_terminal() ? wrapped_lines(text, terminal_columns()) : text);
  lock.unlock();
  keep(log, text);
}

}  // namespace

void log_note(std::string_view line) { say("", line); }
void log_warning(std::string_view line) { say("warning: ", line); }
void log_error(std::string_view line) { say(kErrorPrefix, line); }

void print_last_error(std::string_view line) {
  const std::string text =
      str("\n", kErrorPrefix, rank_prefix(), shown(line, /*keeps_lines=*/true), "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void log_progress(std::string_view line, bool keep_it) {
  log_progress({{std::string(line), 0}}, keep_it);
}

void log_progress(const std::vector<LinePart>& raw_parts, bool keep_it) {
  std::vector<LinePart> parts = raw_parts;
  for (LinePart& part : parts) part.text = shown(part.text);
  const bool terminal = is_terminal();
  if (!terminal && !keep_it) return;
  Log& log = the_log();
  std::unique_lock lock(log.mutex);
  if (log.rank > 0) return;
  if (terminal) {
    // A line that wrapped could not be erased again.
    print(str(kEraseLine, fitted_line(parts, terminal_columns() - 1), keep_it ? "\n" : ""));
    log.progress_open = !keep_it;
  } else {
    print_line(log, whole_line(parts));
  }
  lock.unlock();
  if (keep_it) keep(log, whole_line(parts));
}

void log_progress_done() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (log.progress_open) print(std::string(kEraseLine));
  log.progress_open = false;
}

void log_as_rank(int rank) { the_log().rank = rank; }

WarningsMuted::WarningsMuted() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.warnings_muted = true;
}

WarningsMuted::~WarningsMuted() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.warnings_muted = false;
}

void log_to_file(const std::filesystem::path& file) {
  Log& log = the_log();
  const std::lock_guard lock(log.file_mutex);
  log.file = file;
  log.failed = false;
  if (file.empty()) return;
  std::string text;
  for (const std::string& line : log.early) text += line;
  log.early.clear();
  if (!text.empty()) append(log, text);
}

}  // namespace lmtrain
