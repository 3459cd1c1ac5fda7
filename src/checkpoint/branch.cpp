#include "checkpoint/branch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/trial.h"

namespace lmtrain {

int64_t checkpoint_of_branch(const RunFolder& from, std::optional<int64_t> step) {
  const std::vector<int64_t> steps = from.checkpoint_steps();
  if (step && std::find(steps.begin(), steps.end(), *step) == steps.end()) {
    std::vector<std::string> known;
    known.reserve(steps.size());
    for (const int64_t there : steps) known.push_back(std::to_string(there));
    throw Error(ErrorKind::kUsage,
                str(from.path().string(), " has no checkpoint of step ", *step,
                    known.empty() ? "" : str("; it has those of ", join(known, ", "))));
  }
  const std::optional<int64_t> chosen =
      step ? step : newest_valid_checkpoint(from, /*skip_training_state=*/false);
  if (!chosen) {
    throw Error(ErrorKind::kUsage,
                str("there is no checkpoint in ", from.path().string(), " to branch from"));
  }
  verify_checkpoint(from, *chosen, /*skip_training_state=*/false);
  require_own_checkpoint(from, *chosen);
  return *chosen;
}

Config config_of_branch(const Config& config, int64_t seed, const RunFolder& branch) {
  Config of_branch = config_of_seed(config, seed);
  of_branch.restart = {};
  of_branch.name = branch.path().filename().string();
  of_branch.run_dir = branch.path().string();
  return of_branch;
}

}  // namespace lmtrain
