// Gathers what is known of a model, and writes its card (report/model_card.h): README.md and
// curve.svg. The manifest of a checkpoint does not list the two, so that a person may edit them.
#pragma once

#include <filesystem>

#include "checkpoint/model_location.h"
#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Writes the card of each checkpoint of a run that is done. Files with these bytes already stay
// untouched, and so does a README.md without kCardMark. A checkpoint whose config.json cannot be
// used is passed over. The folder's lock must be held. Throws Error(kIo).
void write_model_cards(const RunFolder& run);

// Writes the card of a model into `folder`, which is being written and has none yet; both files are
// synced. A model without a run keeps the README.md that its folder has. What cannot be read is
// left out of the card. Throws Error(kIo).
void write_model_card(const ModelLocation& location, const std::filesystem::path& folder);

// Returns what the config of the model's run says for its card; nothing of it without a run, or
// where its config cannot be used. Throws Error(kIo).
CardConfig located_card(const ModelLocation& location);

}  // namespace lmtrain
