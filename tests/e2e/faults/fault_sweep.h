// Every fault of every call of a command, or a part of them: the command ends with the bits of the
// undisturbed one, or with exit code 5 and a message that names the file and the cause, or is
// killed; and then the command that goes on ends with these bits, with every checkpoint that a save
// had reported.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "e2e/faults/fault_server.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {

struct Scenario {
  std::string name;
  std::vector<std::string> command;
  // Lays the files out as before the command.
  std::function<void()> begin = [] {};
  // Says what is not as after the undisturbed command; it is given what the command printed.
  std::function<std::string(const ProcessResult&)> difference;
  // What to do after a failure; the command again where it is not given.
  std::function<std::vector<std::string>()> go_on = {};
  // The run that the command writes, if it writes one.
  std::optional<RunDir> run = {};

  std::vector<std::string> next_command() const { return go_on ? go_on() : command; }
};

class FaultSweep {
 public:
  // `below`: the folder of everything that the command may touch.
  FaultSweep(FaultServer& server, const std::filesystem::path& below, Scenario scenario);

  // All faults that LMTRAIN_FAULTS names ("3/8": the third of every eight), else some `sample`
  // spread over all. Prints a line for each kind of call.
  void run(size_t sample);
  // The same with SIGKILL after a random part of the time that the command takes, until it has
  // been killed `kills` times.
  void kill_at_random(int kills, uint64_t seed);

 private:
  struct Planned {
    Fault fault;
    std::string call;  // "kind path"
  };
  struct Counts {
    int calls = 0, faults = 0, same = 0, refused = 0, killed = 0;
  };

  std::vector<Planned> plan();
  void check(const Planned& planned);
  void check_refused(const Fault& fault, const ProcessResult& result) const;
  void check_killed(const std::string& events) const;
  void go_on();
  void print() const;

  FaultServer& server_;
  std::filesystem::path below_;
  Scenario scenario_;
  std::map<std::string, Counts> counts_;  // by kind of call
};

// The checkpoint of the last save that these lines of events.jsonl report and that is not there;
// empty when it is.
std::string lost_checkpoint(const RunDir& run, const std::string& events);

}  // namespace lmtrain::testing
