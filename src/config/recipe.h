// The recipe chooses the settings that a config leaves open, as a function of the model, the tokens
// of the run and the passes over its text. docs/recipe.md says where each rule comes from.
//
// The recipe applies where a person wrote the config and gives neither `optimizer.lr` nor
// init_from. Where it does not apply, open settings have the defaults of the table. It never
// changes a key that is given.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"

namespace lmtrain {

// The facts of a run that the recipe uses. A number that is not known yet is left out.
struct RunFacts {
  int64_t vocab_size = 0;                  // rows of the embedding
  std::optional<double> text_tokens = {};  // targets of one pass over data.train
  int64_t num_processes = 1;               // batch.tokens is a multiple of max_length times this
  bool keeps_size = false;                 // leave the shape of the model as it is
};

// A batch of the recipe has at least so many tokens for each unit of hidden_size: for smaller
// batches the update takes too much of the time.
inline constexpr double kLeastBatchOfWidth = 8;

// Returns whether the recipe chooses settings of `config`.
bool takes_recipe(const Config& config);
// Returns whether the recipe chooses the run's length: takes_recipe(), and none of train.steps,
// tokens, epochs and time is given.
bool takes_run_length(const Config& config);
// Returns whether the recipe chooses the shape of the model by the run's tokens. A person must have
// written the config. If model.size is given, it must be "auto"; else takes_recipe() must be true,
// and no key of the shape given.
bool takes_model_size(const Config& config);
// Returns whether the recipe chooses sequence.max_length. It may choose shortest_max_length(), the
// least length, in targets, or a power of two above that. A given batch.tokens must then be a
// multiple of one of them.
bool takes_max_length(const Config& config);
int64_t shortest_max_length(const Config& config);

// Chooses the settings that `config` leaves open, and notes each reason in config.origins.chosen.
// The model gets the shape that model.size stands for; where takes_recipe() is false, nothing else
// is chosen. With train.time it chooses for train.tokens, or for 20M tokens while these are not
// known. Call it again when more facts are known: it then replaces its earlier choices.
void choose_settings(Config& config, const RunFacts& facts);
// Ends the choice: clears model.size and train.time, since the shape and train.tokens now hold what
// they stood for. With model.size, calls write_out_base_width().
void end_choice(Config& config);

// Replaces optimizer.base_width by groups, which the run then keeps. They come after the given
// groups, which win. The command that began a run may give the width again: with `is_of_run`,
// base_width is cleared where the groups of the run end with its groups. Any other width stays, and
// check_config() refuses it.
void write_out_base_width(Config& config, bool is_of_run);

// Returns the number of pieces of a tokenizer that is trained on so many bytes of text, unless
// tokenizer.train.vocab_size is given: a power of two from 512 to kMostChosenPieces.
int64_t vocab_size_for(double text_bytes);
inline constexpr int64_t kMostChosenPieces = 8192;

// Returns the ratio of tokens to count_multiplied() by which the recipe chooses the size for a run
// of `tokens` of new text: 1 up to 50K tokens, 3 at 2M, 20 from 1.2B on.
double tokens_per_parameter(double tokens);

}  // namespace lmtrain
