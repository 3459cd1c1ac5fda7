// config.json of a model folder that transformers wrote.
#include <nlohmann/json.hpp>

#include "config/parse.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(hf_config) {
  ModelConfig model;
  const auto read = [&] { model = parse_hf_model_config(input, "config.json"); };
  if (!accepts(read)) return;
  require(model.vocab_size.has_value(), "vocab_size is set");
  const auto write = [&](const ModelConfig& config) {
    return hf_model_config_json(config, *config.vocab_size, 64, 1, 2, -1).dump();
  };
  const std::string written = write(model);
  require(write(parse_hf_model_config(written, "config.json")) == written,
          "a config.json that is written reads as another");
}

}  // namespace lmtrain::fuzzing
