// Scripts that complete lmtrain's command line in a shell: commands, options, the keys after --set
// and of `config explain`, else names of files. They are made from the same declarations as --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lmtrain {

// Each returns the text of a script for the program `app`, whose commands are declared already.
// bash 4.4: source it, or put it into share/bash-completion/completions/lmtrain.
std::string bash_completion(const CLI::App& app);
// zsh 5: put it into a folder of $fpath as _lmtrain, or source it after compinit.
std::string zsh_completion(const CLI::App& app);
// fish 3: put it into share/fish/vendor_completions.d/lmtrain.fish, or source it.
std::string fish_completion(const CLI::App& app);

}  // namespace lmtrain
