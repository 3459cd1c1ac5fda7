// Handles the words of a command line that CLI11 does not know: `help` and `version` as people type
// them, and commands or options that do not exist, with a guess at what the person meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lmtrain {

// Returns the commands below `app` that --help shows, in the order of their declarations.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

// Returns the arguments without the program's name, with words as other programs take them turned
// into options: `version` into --version, `help` into --help, `help train` into train --help.
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// Returns a message if the first argument should be a command and is none; else an empty text.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

// Returns whether the arguments are only names of commands, and another command should follow: no
// argument at all, or `config`.
bool lacks_command(const CLI::App& app, const std::vector<std::string>& arguments);

// Returns a message about the first word that is neither a command nor an option, with the nearest
// one, or with `--set` if the word is a setting; empty if all words are known. Call it for
// arguments that CLI11 has refused.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace lmtrain
