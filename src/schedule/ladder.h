// Chooses the ladder of a forecast: the small runs whose losses predict the loss of a large run.
// Costs are counted in FLOPs, never timed, so that the same config and text give the same
// ladder on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// What the ladder needs to know of the run that it is for. Tokens are targets.
struct LadderSpec {
  ModelConfig model = {};        // of the run
  int64_t vocab_size = 0;        // rows of the embedding
  int64_t max_length = 0;        // of a row
  int64_t batch_tokens = 0;      // of the config; 0: it gives none
  double tokens = 0;             // of the run
  double text_tokens = 0;        // of one pass over the text
  double evaluation_tokens = 0;  // of one evaluation of a rung
  double spend = 0.1;            // share of the run's cost that the ladder may take
};

// A shorter run says less about long runs, so rungs have so many steps where the run pays for them.
inline constexpr double kSettledSteps = 800;

struct Rung {
  std::string name = {};  // of its folder: "363K-66K", "363K-66K-seed2-lr0.7"
  double parameters = 0;  // as model.size counts them
  double multiplied = 0;  // count_multiplied() of them: N of loss_law.h
  int64_t tokens = 0;
  int64_t seed = 0;         // is added to the config's seed
  double eval_percent = 0;  // of the run, from an evaluation to the next
  double cost = 0;          // FLOPs, with evaluations
  double lr_factor = 1;     // multiplies all rates; the law is fitted to rungs of factor 1
};

// Returns the FLOPs of training a token, attention included.
double token_cost(const ModelConfig& model, int64_t vocab_size, int64_t max_length);

// Returns the rungs, by ascending cost:
//   a rung at each of five costs, each cost 3 times the one below; 2 or 1.5 times if that gives
//     more rungs. Size and tokens grow by the root of that factor.
//   a larger model at the second highest of these costs, and a smaller one at the third, to tell
//     size from tokens
//   for a run of several passes over the text, the smallest model with the affordable passes
//   a second seed at the two lowest costs
//   both seeds again with all rates times 0.7 and times 1.4, at one or two of these costs, if a
//     tenth of the FLOPs pays for them and the rest for six rungs of kSettledSteps
// It leaves out rungs that are too short. A rung has at least kSettledSteps steps; if fewer than
// six such rungs are affordable, at least 32. Second seeds and other rates are not counted here.
// Throws Error(kUsage) if fewer than kLeastRungs (schedule/loss_law.h) are affordable.
std::vector<Rung> choose_ladder(const LadderSpec& spec);

}  // namespace lmtrain
