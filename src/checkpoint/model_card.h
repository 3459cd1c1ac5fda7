// Gathers the facts of a model, and writes its card (report/model_card.h): README.md and curve.svg.
// The manifest of a checkpoint does not list the two, so a person may edit them.
#pragma once

#include <filesystem>

#include "checkpoint/model_location.h"
#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Writes the card of each checkpoint of a run that is done. Leaves a README.md without kCardMark,
// and files that would not change, untouched. Skips a checkpoint whose config.json is damaged. The
// folder's lock must be held. Throws Error(kIo).
void write_model_cards(const RunFolder& run);

// Writes the card of a model into `folder`, which has none yet, and syncs both files. For a model
// without a run, copies the card that its folder has, if any. Leaves damaged facts of the run out
// of the card. Throws Error(kIo), the errors of located_model_config and located_max_length, and
// StopRequested on a signal.
void write_model_card(const ModelLocation& location, const std::filesystem::path& folder);

// Returns the settings `card` of the model's run; the defaults if there is no run, or its config is
// damaged. Throws Error(kIo).
CardConfig located_card(const ModelLocation& location);

}  // namespace lmtrain
