#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <string>

namespace lmtrain {
namespace {

std::mutex g_mutex;
bool g_progress_open = false;

bool is_terminal() {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  return terminal;
}

size_t terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

constexpr std::string_view kEraseLine = "\r\033[K";

void print_line(std::string_view prefix, std::string_view line) {
  const std::lock_guard lock(g_mutex);
  std::string text;
  if (g_progress_open) text += kEraseLine;
  text.append(prefix).append(line).push_back('\n');
  g_progress_open = false;
  print(text);
}

}  // namespace

void log_note(std::string_view line) { print_line("", line); }
void log_warning(std::string_view line) { print_line("warning: ", line); }

void log_progress(std::string_view line, bool keep) {
  if (!is_terminal()) {
    if (keep) print_line("", line);
    return;
  }
  const std::lock_guard lock(g_mutex);
  std::string text(kEraseLine);
  // A line that wrapped could not be erased again.
  text += keep ? line : line.substr(0, terminal_columns() - 1);
  if (keep) text.push_back('\n');
  g_progress_open = !keep;
  print(text);
}

void log_progress_done() {
  const std::lock_guard lock(g_mutex);
  if (g_progress_open) print("\n");
  g_progress_open = false;
}

}  // namespace lmtrain
