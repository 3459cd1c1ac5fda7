// A child process that a test starts, watches, signals and limits.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "e2e/fork_server.h"
#include "e2e/terminal.h"

namespace lmtrain::testing {

struct ProcessOptions {
  std::map<std::string, std::string> env{};  // added to the test's own
  std::filesystem::path cwd{};               // default: the source folder
  std::optional<rlim_t> file_size{};         // RLIMIT_FSIZE, bytes
  std::optional<rlim_t> address_space{};     // RLIMIT_AS, bytes
  // Columns of a terminal that stdout, or stderr, is; else they are files.
  std::optional<unsigned short> out_terminal{}, err_terminal{};
  // What forks the program of the command; it has no limits then. Default: the program is started.
  ForkServer* server = nullptr;
};

struct ProcessResult {
  int exit_code = -1;  // -1: it was ended by a signal
  int signal = 0;
  std::string out;
  std::string err;

  // As a shell reports it.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

// All of it, for a failed expectation.
std::ostream& operator<<(std::ostream& out, const ProcessResult& result);

class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const ProcessOptions& options = {});
  ~Process();  // ends it with SIGKILL
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  bool catches(int signal) const;  // it has a handler for it
  bool running();
  // Polls every millisecond. False when the process ends without it, or a minute passes first.
  bool wait_until(const std::function<bool()>& condition);
  // Until it ends; after `seconds` it is killed and the test fails.
  ProcessResult wait(double seconds = 120);
  // What it has written so far.
  std::string out() const;
  std::string err() const;

 private:
  bool reap(bool block);

  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  int out_ = -1;
  int err_ = -1;
  std::unique_ptr<Terminal> out_terminal_, err_terminal_;
};

void sleep_ms(double milliseconds);

}  // namespace lmtrain::testing
