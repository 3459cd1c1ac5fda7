// The log prints the lines that a person reads on stderr while lmtrain works. On a terminal one
// progress line is rewritten in place and notes scroll above it; in a file or pipe every line is
// plain and ends. All but passing progress is also kept in a file, once there is one. All functions
// are thread-safe.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lmtrain {

struct LinePart;  // base/progress_line.h

// These print a text of one line or several, and end its last line. What could steer the terminal
// is spelled as shown() of text.h spells it, but for newlines: a name in the text that may have one
// is given to shown() before.
// On a terminal, lines that are wider are broken before a word (wrapped_lines() of
// base/progress_line.h).
void log_note(std::string_view line);     // something worth knowing
void log_warning(std::string_view line);  // prefixed "warning: "
void log_error(std::string_view line);    // prefixed "lmtrain: "; why the process ends
// Prints an error for a thread that ends the process by _exit. It does not write to the log file,
// and does not wait for other threads, one of which may hang while it holds the log.
void print_last_error(std::string_view line);
// Prints a line of progress. On a terminal parts are left out until the line fits, and the next
// line replaces it unless `keep`. Elsewhere the whole line is printed if `keep`, else nothing.
void log_progress(std::string_view line, bool keep);
void log_progress(const std::vector<LinePart>& parts, bool keep);
// Erases a progress line that is still on the terminal.
void log_progress_done();

// From this call on every note, warning, error and kept line of progress is also appended to
// `file`, with the time in UTC. The call itself appends the first kMostEarlyLines that were printed
// before there was a file. An empty path ends this. A line that cannot be written is lost: the
// process goes on, and prints one warning for each file.
inline constexpr size_t kMostEarlyLines = 1000;
void log_to_file(const std::filesystem::path& file);

}  // namespace lmtrain
