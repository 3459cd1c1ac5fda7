// A run of a model of some thousand parameters on the repository's sample, in a folder of its own:
// what the tests of the loop train.
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/support.h"
#include "config/parse.h"
#include "device/torch_headers.h"
#include "eval/eval_share.h"
#include "formats/tensor_files.h"
#include "prepare/prepare.h"
#include "support/source_dir.h"
#include "training/resolve.h"
#include "training/trainer.h"

namespace lmtrain::testing {

using Json = nlohmann::ordered_json;

class TinyRun {
 public:
  explicit TinyRun(const Json& changes = Json::object()) : run(folder_ / "run") {
    const std::string source = source_dir();
    Json json = Json::parse(R"({
      "threads": 1, "device": "cpu", "precision": "fp32",
      "tokenizer": {},
      "data": {},
      "sequence": {"max_length": 64, "min_length": 16},
      "model": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
                "num_attention_heads": 2, "num_key_value_heads": 1},
      "batch": {"tokens": 128},
      "optimizer": {"lr": 3e-3},
      "train": {"steps": 40},
      "eval": {"every": 10, "tokens": 2000},
      "checkpoint": {"every": 5, "keep": 100, "keep_best": 0},
      "log": {"every": 0, "tensorboard": false}
    })");
    json["tokenizer"]["model"] = source + "/tests/reference/tokenizer/tokenizer.model";
    json["data"]["train"] = {source + "/data/sample"};
    json["data"]["eval"] = {source + "/data/sample.jsonl"};
    json["data"]["cache_dir"] = (folder_ / "cache").string();
    json.merge_patch(changes);
    config = parse_config(json.dump(), "run.json", {});
    resolve_runtime(config);
    data = prepare_data(config, 1);
    resolve_vocab_size(config, Tokenizer::load(data.tokenizer_model));
    resolve_micro_tokens(config, /*num_processes=*/1);
    resolve_eval_tokens(config, data);
    lmtrain::create_directories(run.path());
  }

  // From the checkpoint of a step, or from the beginning.
  Trainer trainer(std::optional<int64_t> checkpoint = std::nullopt) const {
    return Trainer(config, data, run, checkpoint);
  }

  std::vector<Json> lines(const std::filesystem::path& file) const {
    std::vector<Json> lines;
    std::istringstream text(read_file(file));
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  std::vector<Json> events(const std::string& name) const {
    std::vector<Json> chosen;
    for (const Json& line : lines(run.events())) {
      if (line.at("event") == name) chosen.push_back(line);
    }
    return chosen;
  }
  Json status() const { return Json::parse(read_file(run.status())); }
  TrainingState state(int64_t step) const {
    const auto file = run.checkpoint(step) / "state.json";
    return parse_state(read_file(file), file.string());
  }
  // Weights and moments of a checkpoint, byte for byte.
  std::string bytes(int64_t step) const {
    return read_file(run.checkpoint(step) / "model.safetensors") +
           read_file(run.checkpoint(step) / "optimizer.safetensors");
  }

 private:
  TemporaryFolder folder_;

 public:
  RunFolder run;
  Config config;
  PreparedData data;
};

}  // namespace lmtrain::testing
