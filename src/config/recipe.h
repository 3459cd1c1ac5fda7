// The recipe: what the settings become that a config leaves to lmtrain. It is a function of the
// model, the tokens of the run and the passes over its text. docs/recipe.md says where each rule
// comes from.
//
// A config leaves the recipe its choices where a person wrote it, `optimizer.lr` is not given, and
// the weights begin at random. A key that is given is never changed. Where optimizer.lr is given,
// or init_from, the settings have the defaults of their table.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"

namespace lmtrain {

// What the recipe needs to know of a run. An unknown number is left out.
struct RunFacts {
  int64_t vocab_size = 0;                  // rows of the embedding
  std::optional<double> text_tokens = {};  // targets of one pass over data.train
  int64_t num_processes = 1;               // batch.tokens is a multiple of max_length for each
  bool keeps_size = false;                 // the shape of the model stays as it is
};

// Returns whether the recipe chooses settings of `config`.
bool takes_recipe(const Config& config);
// Returns whether the run's length is left to lmtrain: takes_recipe(), and no key of `train` that
// says it is given.
bool takes_run_length(const Config& config);
// Returns whether the shape of the model is left to lmtrain: model.size is "auto", or
// takes_recipe() and neither model.size nor any part of the shape is given.
bool takes_model_size(const Config& config);
// Returns whether the longest rows are left to lmtrain. A batch that is given must then be whole
// rows of shortest_max_length().
bool takes_max_length(const Config& config);
int64_t shortest_max_length(const Config& config);

// Gives the settings that `config` leaves open their values, and notes the reason of each in
// config.origins.chosen. The shape of the model becomes the one that model.size stands for. With
// train.time the run is taken as one of train.tokens, or of 20M tokens while these are not known.
// It may be called again with more facts: what was chosen before is then chosen anew.
void choose_settings(Config& config, const RunFacts& facts);
// Says that nothing is left to choose: model.size and train.time are cleared, so that the config of
// the run has the numbers alone.
void end_choice(Config& config);

// Returns how many tokens a run of `tokens` has for each parameter that a token multiplies
// (count_multiplied), where the recipe chooses the size: 3 at 2M tokens, 20 from 1B on.
double tokens_per_parameter(double tokens);

}  // namespace lmtrain
