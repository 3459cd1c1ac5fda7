#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "config/describe.h"
#include "config/parse.h"
#include "config/recipe.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

// Shows a long text on a terminal page by page, by the program that the user reads with.

// The command, as a shell takes it; empty: none.
std::string pager_command() {
  const char* kind = std::getenv("TERM");
  if (kind == nullptr || std::string_view(kind) == "dumb") return "";
  const char* pager = std::getenv("PAGER");
  const std::string command = pager != nullptr ? pager : "less -R";
  return command == "cat" ? "" : command;
}

// Returns whether the text has more lines than the terminal shows at once.
bool is_longer_than_screen(const std::string& text) {
  const TerminalSize screen = terminal_size(STDOUT_FILENO);
  int64_t lines = 1;  // the prompt that follows
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines += 1 + std::max<int64_t>(0, static_cast<int64_t>(end - begin) - 1) / screen.columns;
    begin = end + 1;
  }
  return lines > screen.rows;
}

// Ignores a signal until the end of the block.
class SignalIgnored {
 public:
  explicit SignalIgnored(int signal) : signal_(signal) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(signal_, &ignore, &before_);
  }
  ~SignalIgnored() { ::sigaction(signal_, &before_, nullptr); }
  SignalIgnored(const SignalIgnored&) = delete;
  SignalIgnored& operator=(const SignalIgnored&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

// Begins the command in a shell, with a pipe as its input. Returns its process and the end of the
// pipe to write to; a process of -1 when it could not be begun.
struct Pager {
  pid_t process = -1;
  int input = -1;
};
Pager begin_pager(std::string command) {
  Pager pager;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return pager;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  ::posix_spawnattr_init(&attributes);
  sigset_t usual;  // lmtrain ignores SIGPIPE (base/stop.h), and other programs do not
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::string shell = "sh", option = "-c";
  char* const arguments[] = {shell.data(), option.data(), command.data(), nullptr};
  if (::posix_spawn(&pager.process, "/bin/sh", &actions, &attributes, arguments, environ) != 0)
    pager.process = -1;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  pager.input = ends[1];
  return pager;
}

// Returns false when the command could not be run.
bool show(const std::string& command, std::string_view text) {
  const Pager pager = begin_pager(command);
  const SignalIgnored interrupt(SIGINT);  // it is meant for the pager
  while (pager.process != -1 && !text.empty()) {
    const ssize_t written = ::write(pager.input, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // the reader has read enough
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (pager.input != -1) ::close(pager.input);
  if (pager.process == -1) return false;
  int status = 0;
  while (::waitpid(pager.process, &status, 0) == -1 && errno == EINTR) {
  }
  constexpr int kNotFound = 127, kNotExecutable = 126;  // as the shell says it
  return !(WIFEXITED(status) &&
           (WEXITSTATUS(status) == kNotFound || WEXITSTATUS(status) == kNotExecutable));
}

// Prints `text` on standard output. On a terminal with fewer lines the text goes through the
// command in $PAGER, else `less -R`; quitting it early is no error. Without a pager (PAGER is empty
// or "cat", TERM is dumb, or the command cannot be run) prints the text as it is.
void print_by_pages(const std::string& text) {
  if (output_is_terminal() && is_longer_than_screen(text)) {
    const std::string command = pager_command();
    std::cout << std::flush;
    if (!command.empty() && show(command, text)) return;
  }
  std::cout << text << std::flush;
}

struct ConfigArguments {
  std::string key;
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
  bool all = false;
};

// All settings are too long for a screen.
int explain(const ConfigArguments& options) {
  if (options.all && !options.key.empty())
    throw Error(ErrorKind::kUsage, "--all explains all settings; it takes no key");
  const bool is_overview = options.key.empty() && !options.all;
  print_by_pages(is_overview ? explain_first_settings() : explain_setting(options.key));
  return 0;
}

int show(const ConfigArguments& options) {
  Config config = load_new_config(options.config, options.overrides);
  const int64_t pieces = config.tokenizer.train.vocab_size.value_or(kMostChosenPieces);
  choose_settings(config, {.vocab_size = config.model.vocab_size.value_or(pieces)});
  if (options.json) {
    std::cout << config_to_json(config).dump() << std::endl;
  } else {
    std::cout << show_config(config, meanings_of_auto(config)) << std::flush;
  }
  return 0;
}

}  // namespace

void add_config_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand("config", "Explain, describe or show configurations");
  command->require_subcommand(1);

  command->add_subcommand("schema", "Print the JSON Schema of a run configuration")
      ->callback([&action] {
        action = [] {
          std::cout << config_schema().dump(2) << std::endl;
          return 0;
        };
      });

  CLI::App* explain_app =
      command->add_subcommand("explain", "Meaning, default, range and source of a setting");
  explain_app->add_option("key", options->key,
                          "A setting (optimizer.lr) or a section; none: those that matter first");
  explain_app->add_flag("--all", options->all, "Explain all settings");
  explain_app->callback([options, &action] { action = [options] { return explain(*options); }; });

  CLI::App* show_app =
      command->add_subcommand("show", "Check a configuration and print it with every default");
  add_config_options(*show_app, options->config, options->overrides);
  show_app->add_flag("--json", options->json, "Print one JSON document, without notes");
  show_app->callback([options, &action] { action = [options] { return show(*options); }; });
}

}  // namespace lmtrain
