#include "e2e/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace lmtrain::testing {

bool Terminal::available() {
  const int end = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (end < 0) return false;
  ::close(end);
  return true;
}

Terminal::Terminal(unsigned short columns)
    : own_end_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  std::array<char, 128> name{};
  EXPECT_EQ(::grantpt(own_end_), 0);
  EXPECT_EQ(::unlockpt(own_end_), 0);
  EXPECT_EQ(::ptsname_r(own_end_, name.data(), name.size()), 0);
  program_end_ = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_GE(program_end_, 0) << name.data();
  const winsize size{24, columns, 0, 0};
  EXPECT_EQ(::ioctl(program_end_, TIOCSWINSZ, &size), 0);
  // Reads as the program writes, since a terminal holds little. Ends when nobody has the other end.
  reader_ = std::thread([this] {
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(own_end_, buffer.data(), buffer.size())) > 0) {
      const std::lock_guard lock(mutex_);
      text_.append(buffer.data(), static_cast<size_t>(got));
    }
  });
}

Terminal::~Terminal() {
  close_program_end();
  wait();
  ::close(own_end_);
}

void Terminal::close_program_end() {
  if (program_end_ >= 0) ::close(program_end_);
  program_end_ = -1;
}

void Terminal::wait() {
  if (reader_.joinable()) reader_.join();
}

std::string Terminal::text() {
  const std::lock_guard lock(mutex_);
  return text_;
}

std::vector<std::string> screen(const std::string& text) {
  constexpr std::string_view kErase = "\033[K";
  std::vector<std::string> lines(1);
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, kErase.size(), kErase) == 0) {
      lines.back().resize(std::min(column, lines.back().size()));
      at += kErase.size();
      continue;
    }
    const char c = text[at++];
    if (c == '\r') {
      column = 0;
    } else if (c == '\n') {
      lines.emplace_back();
      column = 0;
    } else {
      if (lines.back().size() <= column) lines.back().resize(column + 1, ' ');
      lines.back()[column++] = c;
    }
  }
  return lines;
}

}  // namespace lmtrain::testing
