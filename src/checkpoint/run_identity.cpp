#include "checkpoint/run_identity.h"

#include <nlohmann/json.hpp>

#include "formats/strict_json.h"

namespace lmtrain {

nlohmann::ordered_json identity_json(const RunIdentity& identity) {
  nlohmann::ordered_json json = {{"run", identity.id}, {"branch_of", nullptr}};
  if (const std::optional<BranchPoint>& point = identity.branch_of) {
    json["branch_of"] = {
        {"run", point->run}, {"run_dir", point->run_dir.string()}, {"step", point->step}};
  }
  json["init_from"] = identity.init_from;
  return json;
}

RunIdentity identity_in(const nlohmann::json& config) {
  RunIdentity identity;
  try {
    const nlohmann::json& json = config.at(kIdentityKey);
    identity.id = json.at("run").get<std::string>();
    if (const nlohmann::json& point = json.at("branch_of"); !point.is_null()) {
      identity.branch_of = {point.at("run").get<std::string>(),
                            point.at("run_dir").get<std::string>(),
                            integer_in<int64_t>(point.at("step"))};
    }
    identity.init_from = json.at("init_from").get<std::string>();
    return identity;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace lmtrain
