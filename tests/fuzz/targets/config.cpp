// The config of a run. The input is the config, then up to four overrides, each after a "%%".
#include <nlohmann/json.hpp>

#include "config/check.h"
#include "config/parse.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(config) {
  const std::vector<std::string> parts = parts_of(input, 5);
  std::vector<std::string> overrides;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!parts[i].empty()) overrides.push_back(parts[i]);
  }
  Config config;
  const auto read = [&] {
    config = parse_config(parts[0], "run.json", overrides, ConfigAuthor::kRun);
  };
  if (!accepts(read)) return;
  const std::string written = config_to_json(config).dump();
  const Config again = parse_config(written, "run.json", {}, ConfigAuthor::kRun);
  require(config_to_json(again).dump() == written, "a config that is written reads as another");
  require(!show_config(config).empty(), "config show prints nothing");
}

}  // namespace lmtrain::fuzzing
