// Uninterrupted runs to compare with, made once a process.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "e2e/workspace.h"

namespace lmtrain::testing {

// A finished run of tiny_config with `changes`, and its workspace (config.json, cache).
struct Reference {
  explicit Reference(const Json& changes)
      : config(workspace.config(changes)), run(train(config, workspace / "reference")) {}
  // A path in the workspace that no other test of this process has.
  std::filesystem::path fresh(const std::string& name) const {
    static int count = 0;
    return workspace / (name + "-" + std::to_string(++count));
  }

  Workspace workspace;
  std::string config;
  RunDir run;
};

inline const Reference& reference(const Json& changes = Json::object()) {
  static std::map<std::string, Reference> made;
  return made.try_emplace(changes.dump(), changes).first->second;
}

}  // namespace lmtrain::testing
