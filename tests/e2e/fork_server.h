// A program that is forked for each command, so that its libraries are linked once: see
// fork_library/fork_server.cpp.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lmtrain::testing {

class Process;

class ForkServer {
 public:
  // Starts `program` with `library`, which has fork_server.cpp, in front. `env`, beside the test's
  // own, is for the constructors of the program's libraries; a command brings its own. This process
  // becomes a subreaper, so that it can wait for the commands.
  ForkServer(const std::string& program, const std::string& library,
             std::map<std::string, std::string> env);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Runs the program with `words`, of which the first is its name, and `environment` (NAME=VALUE)
  // in `folder`; `out` and `err` are descriptors of its output. Returns the id of the process, a
  // child of this one. Throws std::runtime_error where the server has ended.
  pid_t start(const std::vector<std::string>& words, const std::vector<std::string>& environment,
              const std::string& folder, int out, int err);

 private:
  int socket_ = -1;
  std::unique_ptr<Process> server_;
};

}  // namespace lmtrain::testing
