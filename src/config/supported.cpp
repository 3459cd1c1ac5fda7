// What the contract has and this version has not. As features land, lines disappear.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "config/parse.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

struct Supported {
  const char* key;
  std::vector<std::string> values;
  const char* missing;  // what the others would need
};

const std::vector<Supported>& supported() {
  static const std::vector<Supported> kTable = {
      {"precision",
       {"auto", "fp32", "bf16", "fp16"},
       " (it needs a GPU with matrix units for fp8, NVIDIA compute capability 8.9 or higher, and "
       "scaled matrix products that lmtrain does not have)"},
  };
  return kTable;
}

}  // namespace

void check_supported(const Config& config) {
  Config copy = config;
  const SettingTable table = config_settings(copy);
  std::vector<std::string> problems;
  for (const auto& [key, values, missing] : supported()) {
    const std::string value = value_text(*table.find(key));
    if (std::find(values.begin(), values.end(), value) != values.end()) continue;
    problems.push_back(config.origins.place(key) + ": " + pointer_of(key) + ": " + value +
                       " is not built yet" + missing +
                       "; this version supports: " + join(values, " | "));
  }
  if (!problems.empty()) throw Error(ErrorKind::kConfig, join(problems, "\n"));
}

}  // namespace lmtrain
