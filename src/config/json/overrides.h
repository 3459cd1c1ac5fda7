// --set key=value: changes to the tree of JSON before it is read, so that an override is checked
// like the file.
#pragma once

#include <string>
#include <vector>

#include "config/json/json_reader.h"

namespace lmtrain {

// Applies them in order; each problem becomes a line. `root` becomes an object if it is null.
void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems);

}  // namespace lmtrain
