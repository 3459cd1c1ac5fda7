// Reads the words of a command line that CLI11 does not: `help` and `version` as people type them,
// and commands or options that do not exist, for which it finds what was probably meant. Says which
// commands --help shows.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lmtrain {

// Returns the commands of `app`, or those below a command, that --help shows, in the order of their
// declarations.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

// Returns the arguments without the program's name, with the words that other programs know turned
// into options: `version` is --version, `help` is --help, `help train` is train --help.
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// Returns a message when the first argument should be a command and is none; else empty.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

// Returns whether the arguments are the names of commands alone, and end where another command
// should follow: none at all, or `config`.
bool lacks_command(const CLI::App& app, const std::vector<std::string>& arguments);

// Returns a message about the first word that is neither a command nor an option, with the nearest
// one, or with `--set` for the name of a setting; empty when every word is known. Call it for
// arguments that CLI11 has refused.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace lmtrain
