// The options of the commands that take a model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checkpoint/loaded_model.h"
#include "checkpoint/model_location.h"
#include "cli/options.h"

namespace lmtrain {

// Names the model of a command, as a person types it.
struct TargetArguments {
  std::string path;
  bool last = false;            // of a run folder: the newest checkpoint
  std::optional<int64_t> step;  // of a run folder: this checkpoint

  ModelRequest request(const char* command) const {
    return {.command = command, .last = last, .step = step};
  }
};

// Adds the argument for a model, and --last and --step N, which choose a checkpoint of a run
// folder. `target` must live until the command line is parsed.
inline void add_target(CLI::App& command, TargetArguments& target) {
  command.add_option("target", target.path, "A run folder, a checkpoint, or a HF Llama folder")
      ->required()
      ->check(not_empty());
  CLI::Option* newest = command.add_flag("--last", target.last,
                                         "Of a run folder: the newest checkpoint, not the best");
  command.add_option("--step", target.step, "Of a run folder: the checkpoint of this step")
      ->transform(integer_from(0))
      ->excludes(newest);
}

// Adds --precision, --device and --tokenizer, which say how a model is loaded. `options` must live
// until the command line is parsed.
inline void add_load_options(CLI::App& command, LoadedModelOptions& options) {
  command.add_option("--precision", options.precision, "auto, fp32, bf16 or fp16")
      ->check(precision_of_weights())
      ->capture_default_str();
  command.add_option("--device", options.device, "auto, cpu, cuda or cuda:N")
      ->check(device_name())
      ->capture_default_str();
  command
      .add_option("--tokenizer", options.tokenizer_path,
                  "A sentencepiece .model or a tokenizer.json (default: the folder's)")
      ->check(not_empty());
}

// Loads the model of a command. Throws the errors of with_located_model and LoadedModel.
inline LoadedModel load_target(const TargetArguments& target, const LoadedModelOptions& options,
                               const char* command) {
  return with_located_model(
      target.path, [&](const ModelLocation& location) { return LoadedModel(location, options); },
      target.request(command));
}

// Prints one line. A path or a prompt need not be UTF-8, and JSON must.
inline void print_json(const nlohmann::ordered_json& json) {
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace lmtrain
