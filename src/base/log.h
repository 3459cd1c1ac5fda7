// The log prints lines for people to stderr while lmtrain works. On a terminal one progress line is
// rewritten in place and notes scroll above it. A file or pipe gets plain, whole lines. Once there
// is a log file, everything but passing progress also goes there. All functions are thread-safe.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lmtrain {

struct LinePart;  // base/progress.h

// These print one or more lines, and end the last one. Control characters are escaped as by shown()
// of text.h, except newlines and tabs; so pass a name that may hold a newline to shown() first.
// Lines wider than the terminal are broken before a word (wrapped_lines() of base/progress.h).
void log_note(std::string_view line);     // something worth knowing
void log_warning(std::string_view line);  // prefixed "warning: "
void log_error(std::string_view line);    // prefixed "lmtrain: "; why the process ends
// Prints an error for a thread that ends the process by _exit. It does not write to the log file,
// and it takes no lock, since a thread that hangs may hold the log's.
void print_last_error(std::string_view line);
// Prints a line of progress. On a terminal, parts are left out until the line fits (fitted_line()
// of base/progress.h); with `keep` the line stays, else the next line replaces it. Elsewhere a line
// is printed only with `keep`, as a whole.
void log_progress(std::string_view line, bool keep);
void log_progress(const std::vector<LinePart>& parts, bool keep);
// Erases a progress line that is still on the terminal.
void log_progress_done();

// From this call on, every note, warning, error and kept line of progress is also appended to
// `file`, with the time in UTC. The call itself appends the earlier lines, at most the first
// kMostEarlyLines. An empty path ends this. A line that cannot be written is lost; the first such
// line of a file prints a warning.
inline constexpr size_t kMostEarlyLines = 1000;
void log_to_file(const std::filesystem::path& file);

// Sets the rank of this process among those that work together. Call it before the first line is
// printed. Rank 0 prints everything. Every other rank prints only warnings and errors, with its
// number. A line that is not printed is not written to the log file either.
void log_as_rank(int rank);

// While an object of this class exists, notes and warnings of all threads are dropped, because
// another process or call prints the same ones. At most one object may exist.
class WarningsMuted {
 public:
  WarningsMuted();
  WarningsMuted(const WarningsMuted&) = delete;
  WarningsMuted& operator=(const WarningsMuted&) = delete;
  ~WarningsMuted();
};

}  // namespace lmtrain
