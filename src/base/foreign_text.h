// These functions recognise, by its first bytes, a file that lies in the place of another: the
// pointer that a tool left for it, an error page of the server that should have sent it, or the
// right text in an encoding that nobody reads here. Readers ask them for their messages.
#pragma once

#include <string>
#include <string_view>

namespace lmtrain {

// As many first bytes of a file are enough for these functions.
inline constexpr size_t kForeignHeadBytes = 512;

// Returns what a file is that begins with `head` and is never text or data itself, with what to do:
// "a pointer of git-lfs and not the file itself: run git lfs pull". It is a pointer of git-lfs,
// git-annex, DVC or Xet, or text in UTF-32 with a byte order mark, or in UTF-16 with or without
// one. Empty for every other file.
std::string foreign_text(std::string_view head);
// Returns whether it is one of these pointers.
bool is_file_pointer(std::string_view head);

// Returns the same, and also what a server sends in place of a file that it does not give: a web
// page, "Entry not found", an error as JSON or XML. Such bytes may be meant where text is read, so
// this is for files that could not be read as data.
std::string foreign_data(std::string_view head);

}  // namespace lmtrain
