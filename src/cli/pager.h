// Shows a long text on a terminal page by page, by the program that the user reads with.
#pragma once

#include <string>

namespace lmtrain {

// Prints `text` on standard output. Where that is a terminal with fewer lines, the text goes
// through the command in $PAGER, else `less -R`; quitting it early is no error. Without a pager
// (PAGER is empty or "cat", TERM is dumb, or the command cannot be run) it is printed as it is.
void print_by_pages(const std::string& text);

}  // namespace lmtrain
