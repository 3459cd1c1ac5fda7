#include "checkpoint/state.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_number.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStateVersion = 3;

Json length_json(const RunLength& length) {
  return {{"steps", length.steps}, {"tokens", length.tokens}, {"epochs", length.epochs}};
}

RunLength read_length(const Json& json) {
  RunLength length;
  length.steps = json.at("steps").get<int64_t>();
  length.tokens = json.at("tokens").get<int64_t>();
  length.epochs = json.at("epochs").get<double>();
  return length;
}

Json guard_json(const GuardState& guard) {
  Json windows = Json::object();
  for (const auto& [length, window] : guard.windows) {
    windows[std::to_string(length)] = {{"losses", window.losses},
                                       {"grad_norms", window.grad_norms}};
  }
  return {{"skips_in_a_row", guard.skips_in_a_row},
          {"windows", windows},
          {"passed_over", guard.excluded_batches},
          {"rollback_step", guard.rollback_step},
          {"rollbacks_in_a_row", guard.rollbacks_in_a_row}};
}

GuardState read_guard(const Json& json) {
  GuardState guard;
  guard.skips_in_a_row = json.at("skips_in_a_row").get<int64_t>();
  for (const auto& [length, window] : json.at("windows").items()) {
    guard.windows[std::strtoll(length.c_str(), nullptr, 10)] = {
        window.at("losses").get<std::vector<double>>(),
        window.at("grad_norms").get<std::vector<double>>()};
  }
  guard.excluded_batches = json.at("passed_over").get<std::vector<int64_t>>();
  guard.rollback_step = json.at("rollback_step").get<int64_t>();
  guard.rollbacks_in_a_row = json.at("rollbacks_in_a_row").get<int64_t>();
  return guard;
}

Json loss_scale_json(const std::optional<LossScale>& loss_scale) {
  if (!loss_scale) return nullptr;
  return {{"scale", loss_scale->scale}, {"good_in_a_row", loss_scale->good_in_a_row}};
}

std::optional<LossScale> read_loss_scale(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return LossScale{json.at("scale").get<double>(), json.at("good_in_a_row").get<int64_t>()};
}

Json micro_json(const MicroBatchLimits& micro) {
  Json rows = Json::object();
  for (const auto& [length, count] : micro.rows) rows[std::to_string(length)] = count;
  return {{"micro_tokens", micro.micro_tokens}, {"rows", rows}};
}

MicroBatchLimits read_micro(const Json& json) {
  MicroBatchLimits micro;
  micro.micro_tokens = json.at("micro_tokens").get<int64_t>();
  for (const auto& [length, count] : json.at("rows").items())
    micro.rows[std::strtoll(length.c_str(), nullptr, 10)] = count.get<int64_t>();
  return micro;
}

}  // namespace

std::string state_to_text(const TrainingState& state) {
  Json replans = Json::array();
  for (const Replan& replan : state.replans) {
    replans.push_back({{"first_batch", replan.first_batch}, {"left", length_json(replan.left)}});
  }
  const Json json = {{"version", kStateVersion},
                     {"run", state.run},
                     {"seed", state.seed},
                     {"step", state.step},
                     {"batch", state.batch},
                     {"tokens", state.tokens},
                     {"elapsed", state.elapsed},
                     {"loss", finite_or_null(state.loss)},
                     {"eval_loss", finite_or_null(state.eval_loss)},
                     {"eval_step", state.eval_step ? Json(*state.eval_step) : Json(nullptr)},
                     {"eval_pending", state.eval_pending},
                     {"fingerprint", state.fingerprint},
                     {"planned", length_json(state.planned)},
                     {"replans", replans},
                     {"total", length_json(state.total)},
                     {"guard", guard_json(state.guard)},
                     {"loss_scale", loss_scale_json(state.loss_scale)},
                     {"kept", state.kept},
                     {"micro", micro_json(state.micro)}};
  return json.dump(2) + "\n";
}

TrainingState parse_state(const std::string& text, const std::string& origin) {
  try {
    const Json json = Json::parse(text);
    if (json.at("version") != kStateVersion) {
      throw Error(ErrorKind::kCheckpoint,
                  str(origin, ": version ", json.at("version").dump(), ", this lmtrain reads ",
                      kStateVersion, "; resume with the lmtrain that wrote it"));
    }
    TrainingState state;
    state.run = json.value("run", "");  // a checkpoint of before runs had an id has no key
    state.seed = json.at("seed").get<int64_t>();
    state.step = json.at("step").get<int64_t>();
    state.batch = json.at("batch").get<int64_t>();
    state.tokens = json.at("tokens").get<int64_t>();
    state.elapsed = json.at("elapsed").get<double>();
    state.loss = number_if_any(json.at("loss"));
    state.eval_loss = number_if_any(json.at("eval_loss"));
    if (const Json& step = json.at("eval_step"); !step.is_null())
      state.eval_step = step.get<int64_t>();
    state.eval_pending = json.at("eval_pending").get<bool>();
    state.fingerprint = json.at("fingerprint").get<std::string>();
    state.planned = read_length(json.at("planned"));
    for (const Json& replan : json.at("replans")) {
      state.replans.push_back(
          {replan.at("first_batch").get<int64_t>(), read_length(replan.at("left"))});
    }
    state.total = read_length(json.at("total"));
    state.guard = read_guard(json.at("guard"));
    state.loss_scale = read_loss_scale(json.at("loss_scale"));
    state.kept = json.value("kept", false);  // a checkpoint of before there were such has no key
    state.micro = read_micro(json.at("micro"));
    return state;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCheckpoint, str(origin, ": not a training state: ", error.what()));
  }
}

}  // namespace lmtrain
