// An override, --set key=value, changes the tree of JSON before the settings are read, so that it
// is checked like the file.
#pragma once

#include <string>
#include <vector>

#include "config/json_reader.h"

namespace lmtrain {

// Applies "key=value" texts to `root` in order. The key is dotted; a part of it that follows a list
// is the index of an item that the list has. Objects that are missing are made, and `root` becomes
// an object if it is null. The value is JSON; text that is no JSON becomes a string, but text that
// begins with {, [ or " must be JSON. A length of the run other than null (train.steps,
// train.tokens, train.epochs) removes the other two. Adds a line to `problems` for each override
// that cannot be applied, and leaves it out. `where` of the new values is "--set key=value".
void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems);

}  // namespace lmtrain
