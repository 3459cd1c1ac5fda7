// Names the entries of data.train, whose held-out parts have figures of their own. A name follows
// from the paths alone and has the characters of a set's name (config/set_name.h). docs/data.md
// states the rule.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Returns one name per entry, all different. A name is the last part of the path that has no
// wildcard: "python" for corpus/python/**/*.py. Where several entries would have the same name,
// each of these gets the parts behind it too ("python.py"), then one more part before it, and so
// on. Relative paths are taken as absolute ones, so that a run and its config.json give the same
// names.
std::vector<std::string> source_names(const std::vector<DataSourceConfig>& sources);

}  // namespace lmtrain
