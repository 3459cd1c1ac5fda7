// Writes manual pages in the language of man(7), roff with its macros, from Markdown as our pages
// have it: paragraphs, headings, lists, tables, fenced blocks, code, bold, links.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// Returns one line of text as roff prints it, without a macro in it.
std::string roff_text(std::string_view text);
// Returns the same for what is typed as it stands: hyphens are the minus sign of a command line.
std::string roff_code(std::string_view text);

// A section of a Markdown page: a heading of level 2, or the page's own of level 1, and what
// follows it up to the next one.
struct MarkdownSection {
  std::string heading;  // without its #; empty before the first heading
  std::vector<std::string> lines;
};
std::vector<MarkdownSection> markdown_sections(const std::string& page);

// Returns the lines as roff: a heading below level 2 is a subsection, a row of a table an item
// whose tag is the first cell. Of a link stays its text, with the address where that is of the web.
// Pictures, and tables of options (their first column is `option`), are left out.
std::string roff_of_markdown(const std::vector<std::string>& lines);

}  // namespace lmtrain
