#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace lmtrain {

bool output_is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

TerminalSize terminal_size(int file) {
  TerminalSize size;
  winsize known{};
  if (::ioctl(file, TIOCGWINSZ, &known) != 0) return size;
  if (known.ws_row > 0) size.rows = known.ws_row;
  if (known.ws_col > 0) size.columns = known.ws_col;
  return size;
}

}  // namespace lmtrain
