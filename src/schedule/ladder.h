// Chooses the ladder of a forecast: the small runs from whose losses the loss of a large run is
// told. Costs are counted in FLOPs, never timed, so that the same config and text give the same
// ladder on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// What the ladder needs to know of the run that it is for. Tokens are targets.
struct LadderSpec {
  ModelConfig model = {};        // its shape is the run's
  int64_t vocab_size = 0;        // rows of the embedding
  int64_t max_length = 0;        // of a row
  int64_t batch_tokens = 0;      // where the config gives them, else 0
  double tokens = 0;             // of the run
  double text_tokens = 0;        // of one pass over the text
  double evaluation_tokens = 0;  // of one evaluation of a rung
  double spend = 0.1;            // the part of the run's cost that the ladder may have
};

struct Rung {
  std::string name = {};  // of its folder, "363K-66K"; the second seed's ends in "-seed2"
  double parameters = 0;  // as model.size counts them
  double multiplied = 0;  // those that a token is multiplied with
  int64_t tokens = 0;
  int64_t seed = 0;         // to be added to the config's
  double eval_percent = 0;  // an evaluation comes after each such part of the run
  double cost = 0;          // FLOPs, with evaluations
};

// Returns the FLOPs of training a token, attention included.
double token_cost(const ModelConfig& model, int64_t vocab_size, int64_t max_length);

// Returns the rungs, by ascending cost. The costs fall by a factor of three from rung to rung, of
// two or one and a half where few rungs could be paid then; size and tokens fall by the root of it.
// Two rungs more have a larger and a smaller model at two of these costs, so that size and tokens
// can be told apart. A run of several passes has another rung with as many passes as the ladder can
// pay. The two cheapest costs are trained with a second seed. All have at least 32 steps. Throws
// Error(kUsage) where fewer than kLeastRungs (schedule/loss_law.h) can be paid.
std::vector<Rung> choose_ladder(const LadderSpec& spec);

}  // namespace lmtrain
