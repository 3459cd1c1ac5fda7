// These functions recognise, by its first bytes, a file that is not what its name says. It may be a
// pointer that a tool left, an error page of a server, or text in an encoding that lmtrain does not
// read. Readers put the answers into their messages.
#pragma once

#include <string>
#include <string_view>

namespace lmtrain {

// `head` is the first bytes of a file; this many are enough.
inline constexpr size_t kForeignHeadBytes = 512;

// Returns what the file is and what to do: "a pointer of git-lfs and not the file itself: run git
// lfs pull". It knows pointers of git-lfs, git-annex, DVC and Xet, text in UTF-32 with a byte order
// mark, and text in UTF-16 with or without one. Returns "" for every other file.
std::string foreign_text(std::string_view head);
// Returns whether the file is one of these pointers. A pointer is a small file: with
// kForeignHeadBytes or more in `head` the answer is false.
bool is_file_pointer(std::string_view head);

// Does the same, and also knows the answers of a server that refused the file: a web page, "Entry
// not found", an error as JSON or XML. A text may begin like that too, so ask this only about a
// file that could not be read as data.
std::string foreign_data(std::string_view head);

}  // namespace lmtrain
