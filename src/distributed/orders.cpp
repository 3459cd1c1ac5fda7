#include "distributed/orders.h"

#include <nlohmann/json.hpp>

#include "config/parse.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json value_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class Value>
std::optional<Value> value_if_any(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Value>());
}

Config config_of(const Json& json) {
  return parse_config(json.dump(), "the config of rank 0", {}, ConfigAuthor::kRank);
}

Json json_of(const PrepareOrder& order) { return {{"prepare", config_to_json(order.config)}}; }
Json json_of(const RunOrder& order) { return {{"config", config_to_json(order.config)}}; }
Json json_of(const AttemptOrder& order) {
  return {{"seed", order.seed},
          {"checkpoint", value_or_null(order.checkpoint)},
          {"is_trial", order.is_trial},
          {"max_time", value_or_null(order.max_time)},
          {"last_step", value_or_null(order.last_step)}};
}
Json json_of(const EndOrder& order) { return {{"exit_code", order.exit_code}}; }

}  // namespace

void broadcast_order(Processes& processes, const Order& order) {
  if (processes.is_only()) return;
  processes.broadcast_order(
      std::visit([](const auto& kind) { return json_of(kind); }, order).dump());
}

Order receive_order(Processes& processes) {
  const Json json = Json::parse(processes.receive_order());
  if (json.contains("prepare")) return PrepareOrder{config_of(json["prepare"])};
  if (json.contains("config")) return RunOrder{config_of(json["config"])};
  if (json.contains("exit_code")) return EndOrder{json["exit_code"].get<int>()};
  return AttemptOrder{json.at("seed").get<int64_t>(), value_if_any<int64_t>(json.at("checkpoint")),
                      json.at("is_trial").get<bool>(), value_if_any<double>(json.at("max_time")),
                      value_if_any<int64_t>(json.at("last_step"))};
}

}  // namespace lmtrain
