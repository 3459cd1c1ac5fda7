// The terminals on standard output and standard error.
#pragma once

#include <cstdint>

namespace lmtrain {

// Returns whether standard output is a terminal.
bool output_is_terminal();

struct TerminalSize {
  int64_t rows = 24, columns = 80;  // characters
};
// Returns the size of the terminal that `file` is, STDOUT_FILENO or STDERR_FILENO; the defaults
// above if it is not known.
TerminalSize terminal_size(int file);

}  // namespace lmtrain
