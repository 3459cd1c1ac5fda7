// The commands that the tests of faults disturb, over one corpus in a folder in memory, and the
// runs that some of them begin with.
#pragma once

#include "e2e/faults/fault_server.h"
#include "e2e/faults/fault_sweep.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {

class FaultScenarios {
 public:
  FaultScenarios();
  FaultScenarios(const FaultScenarios&) = delete;
  FaultScenarios& operator=(const FaultScenarios&) = delete;

  Scenario preparation();  // with a tokenizer of its own
  Scenario tables();       // Parquet and Arrow
  Scenario train();
  Scenario train_without_held_out_text();
  Scenario resume();
  // The run has three checkpoints, the newest after the third of four steps.
  Scenario resume_with_checkpoints();
  Scenario resume_with_trials();  // and those of random restart beside it
  Scenario finished();            // resume of a run that is done
  Scenario restart();             // random restart
  Scenario rollback();            // by the guard
  Scenario branch();              // resume --from --run-dir
  Scenario eval();
  Scenario generate();

  FaultServer& server() { return server_; }
  std::filesystem::path cache() const { return workspace_ / "cache"; }
  FaultSweep sweep(Scenario scenario) {
    return {server_, (workspace_ / "corpus").parent_path(), std::move(scenario)};
  }

 private:
  std::string config(const Json& changes, const std::string& name) const;
  // A run that is done, made once for each config.
  RunDir done(const Json& changes, const std::string& name);
  Scenario preparation_of(const std::string& name, const std::string& config);
  Scenario run_of(const std::string& name, const Json& changes);
  // As a run leaves it that is killed when the checkpoint of `step` would get its name.
  Scenario resume_of(const std::string& name, const Json& changes, int64_t step);
  Scenario printing(const std::string& name, const std::vector<std::string>& command);

  Workspace workspace_;
  Workspace servers_;  // lies beside, so that it is not watched
  FaultServer server_;
};

}  // namespace lmtrain::testing
