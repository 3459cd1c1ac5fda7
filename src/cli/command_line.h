// The words of a command line: `help` and `version` as people type them, and what was probably
// meant by a command or an option that does not exist. CLI11 reads everything else.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lmtrain {

// The arguments without the program's name, with the words that other programs know turned into
// options: `version` is --version, `help` is --help, `help train` is train --help.
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// A message when the first argument should be a command and is none; else empty.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

// A message about the first word that is neither a command nor an option, with the nearest one, or
// with `--set` for the name of a setting; empty when every word is known. For arguments that CLI11
// has refused.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace lmtrain
