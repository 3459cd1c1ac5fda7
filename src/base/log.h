// What a person reads while lmtrain works, on stderr. On a terminal one progress line is rewritten
// in place and notes scroll above it; in a file or pipe every line is plain and ends. Thread-safe.
#pragma once

#include <string_view>

namespace lmtrain {

void log_note(std::string_view line);     // something worth knowing
void log_warning(std::string_view line);  // prefixed "warning: "
// Progress that a later one replaces: rewritten in place on a terminal. Elsewhere printed as a line
// only if `keep`.
void log_progress(std::string_view line, bool keep);
// Ends a progress line, so that what follows begins on a fresh one.
void log_progress_done();

}  // namespace lmtrain
