#include "checkpoint/state.h"

#include "base/error.h"
#include "base/text.h"
#include "formats/json_fields.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

constexpr int kStateVersion = 3;

}  // namespace

static void list_fields(Fields& json, RunLength& length) {
  json.field("steps", length.steps);
  json.field("tokens", length.tokens);
  json.field("epochs", length.epochs);
}

static void list_fields(Fields& json, Pace& pace) {
  json.field("tokens", pace.tokens);
  json.field("done", pace.done);
  json.field("end", pace.end);
}

static void list_fields(Fields& json, Replan& replan) {
  json.field("first_batch", replan.first_batch);
  json.field("left", replan.left);
  json.optional_field("pace", replan.pace);
}

static void list_fields(Fields& json, GuardWindow& window) {
  json.field("losses", window.losses);
  json.field("grad_norms", window.grad_norms);
}

static void list_fields(Fields& json, GuardState& guard) {
  json.field("skips_in_a_row", guard.skips_in_a_row);
  json.field("windows", guard.windows);
  json.field("passed_over", guard.skipped_batches);
  json.field("rollback_step", guard.rollback_step);
  json.field("rollbacks_in_a_row", guard.rollbacks_in_a_row);
}

static void list_fields(Fields& json, LossScale& loss_scale) {
  json.field("scale", loss_scale.scale);
  json.field("good_in_a_row", loss_scale.good_in_a_row);
}

static void list_fields(Fields& json, MicroBatchLimits& micro) {
  json.field("micro_tokens", micro.micro_tokens);
  json.field("rows", micro.rows);
}

static void list_fields(Fields& json, EvaluatedStep& evaluated) {
  json.field("step", evaluated.step);
  json.field("loss", evaluated.loss);
}

static void list_fields(Fields& json, EvaluationHistory& evaluations) {
  json.field("lowest", evaluations.lowest);
  json.field("without_gain", evaluations.without_gain);
  json.field("after_save", evaluations.after_save);
}

static void list_fields(Fields& json, TrainingState& state) {
  json.field("run", state.run);
  json.field("seed", state.seed);
  json.field("step", state.step);
  json.field("batch", state.batch);
  json.field("tokens", state.tokens);
  json.field("elapsed", state.elapsed);
  json.field("loss", state.loss);
  json.field("eval_loss", state.eval_loss);
  json.field("eval_step", state.eval_step);
  json.field("eval_pending", state.eval_pending);
  json.field("evaluations", state.evaluations);
  json.field("fingerprint", state.fingerprint);
  json.field("planned", state.planned);
  json.field("replans", state.replans);
  json.field("total", state.total);
  json.field("guard", state.guard);
  json.field("loss_scale", state.loss_scale);
  json.field("kept", state.kept);
  json.field("micro", state.micro);
}

bool must_save_again(const TrainingState& saved, const TrainingState& now) {
  // An evaluation that has become due since is made by a resume in any case, and needs no save.
  return saved.step != now.step || saved.batch != now.batch || saved.guard != now.guard ||
         saved.loss_scale != now.loss_scale || saved.micro != now.micro ||
         saved.eval_step != now.eval_step || (saved.eval_pending && !now.eval_pending);
}

std::string state_to_text(const TrainingState& state) {
  Json json = Json::object();
  json["version"] = kStateVersion;
  Fields::write(json, state);
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
    Fields::read(json, state);
    return state;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCheckpoint, str(origin, ": not a training state: ", error.what()));
  }
}

}  // namespace lmtrain
