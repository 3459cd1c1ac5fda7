#include "train/state.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStateVersion = 1;

Json optional_number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> read_optional(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
}

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

}  // namespace

std::string state_to_text(const TrainingState& state) {
  Json replans = Json::array();
  for (const Replan& replan : state.replans) {
    replans.push_back({{"first_batch", replan.first_batch}, {"left", length_json(replan.left)}});
  }
  const Json json = {{"version", kStateVersion},
                     {"step", state.step},
                     {"batch", state.batch},
                     {"tokens", state.tokens},
                     {"elapsed", state.elapsed},
                     {"skips_in_a_row", state.skips_in_a_row},
                     {"loss", optional_number(state.loss)},
                     {"eval_loss", optional_number(state.eval_loss)},
                     {"eval_pending", state.eval_pending},
                     {"fingerprint", state.fingerprint},
                     {"planned", length_json(state.planned)},
                     {"replans", replans},
                     {"total", length_json(state.total)}};
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
    state.step = json.at("step").get<int64_t>();
    state.batch = json.at("batch").get<int64_t>();
    state.tokens = json.at("tokens").get<int64_t>();
    state.elapsed = json.at("elapsed").get<double>();
    state.skips_in_a_row = json.at("skips_in_a_row").get<int64_t>();
    state.loss = read_optional(json.at("loss"));
    state.eval_loss = read_optional(json.at("eval_loss"));
    state.eval_pending = json.at("eval_pending").get<bool>();
    state.fingerprint = json.at("fingerprint").get<std::string>();
    state.planned = read_length(json.at("planned"));
    for (const Json& replan : json.at("replans")) {
      state.replans.push_back(
          {replan.at("first_batch").get<int64_t>(), read_length(replan.at("left"))});
    }
    state.total = read_length(json.at("total"));
    return state;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCheckpoint, str(origin, ": not a training state: ", error.what()));
  }
}

}  // namespace lmtrain
