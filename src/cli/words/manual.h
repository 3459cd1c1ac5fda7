// Manual pages: lmtrain(1), and one for each command. Names, descriptions and options come from the
// declarations of the commands, as those of --help do; the prose comes from docs/cli.md.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lmtrain {

struct ManualPage {
  std::string file;  // "lmtrain-train.1"
  std::string text;  // in the language of man(7)
};

// Returns the pages of the program `app`, whose commands are declared already; a hidden command has
// none. `prose` is a page in Markdown: its section of a command's name describes that command, its
// first fenced block holds the synopses, and sections of other names belong to the page of the
// program. Without prose (empty) the pages have no descriptions.
std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& version,
                                     const std::string& prose);

}  // namespace lmtrain
