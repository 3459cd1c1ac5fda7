// lmtrain under the fault library (e2e/fault_library/), which forks it for each command. Files of
// one command are overwritten by the next.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "e2e/process.h"

namespace lmtrain::testing {

// One fault; none when `call` is 0. faults.h of the library says what each value means.
struct Fault {
  long call = 0;
  std::string how = "5";  // an errno, or a word
  int times = 1;
};

// What the library says of a command.
struct FaultReport {
  long calls = 0;
  std::string kind = "none";         // of the first call that failed
  std::vector<std::string> refused;  // paths
  std::string witness;               // the content of the file when power was lost
};

class FaultServer {
 public:
  // `folder` is for its own files.
  explicit FaultServer(const std::filesystem::path& folder);
  FaultServer(const FaultServer&) = delete;
  FaultServer& operator=(const FaultServer&) = delete;

  // Which files are watched, from here on, and which one is witness where power is lost.
  void watch(const std::vector<std::filesystem::path>& below,
             const std::filesystem::path& witness = {});
  // A further setting of the library.
  void set(const std::string& name, const std::string& value) { settings_[name] = value; }

  // Runs lmtrain with these arguments. With `kill_after` it is killed after so many seconds; a
  // command that takes a minute is killed, and the test fails.
  ProcessResult run(const std::vector<std::string>& arguments, const Fault& fault = {},
                    std::optional<double> kill_after = {});
  // Of the last command.
  FaultReport report() const;
  // "kind path" of each call of the command, which must end with exit code 0.
  std::vector<std::string> calls_of(const std::vector<std::string>& arguments);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> settings_;
  ForkServer server_;
};

}  // namespace lmtrain::testing
