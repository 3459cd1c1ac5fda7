#include "training/forecast.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/run_folder.h"
#include "config/model_family.h"
#include "config/parse.h"
#include "config/recipe.h"
#include "device/device.h"
#include "distributed/launcher.h"
#include "eval/eval_share.h"
#include "formats/strict_json.h"
#include "prepare/given_tokenizer.h"
#include "prepare/prepare.h"
#include "runlog/metrics.h"
#include "schedule/ladder.h"
#include "schedule/loss_law.h"
#include "schedule/rate_choice.h"
#include "training/choices.h"
#include "training/expected_loss.h"
#include "training/launch.h"
#include "training/memory_plan.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = 16 << 20;  // of ladder.json
constexpr double kNearlySettled = 0.9;     // batches are rounded, so steps are too
// LossForecast::drift where most rungs were short: 10 % at 20 times the largest rung's cost
// (docs/forecast.md#checked).
constexpr double kShortRungsDrift = 0.033;

// ---- Configs ----

void set_given(Config& config, const char* key) {
  config.origins.by_key[key] = "forecast";
  config.origins.chosen.erase(key);
}

void set_tokens(Config& config, int64_t tokens) {
  config.train = {};
  config.train.tokens = tokens;
  for (const char* key : {"train.steps", "train.epochs", "train.time"})
    config.origins.by_key.erase(key);
  set_given(config, "train.tokens");
}

void set_model_size(Config& config, double parameters) {
  config.model.size = str(static_cast<int64_t>(parameters));
  set_given(config, "model.size");
}

// Returns the config that all rungs have in common: length, size and what watches over a run are
// left out.
Config config_of_rungs(const Config& asked) {
  Config config = asked;
  config.origins.chosen.clear();
  config.run_dir.reset();
  config.forecast.reset();
  set_tokens(config, 1);
  const ModelConfig shape;
  config.model.size.reset();
  config.model.hidden_size = shape.hidden_size;
  config.model.intermediate_size = shape.intermediate_size;
  config.model.num_hidden_layers = shape.num_hidden_layers;
  config.model.num_attention_heads = shape.num_attention_heads;
  config.model.num_key_value_heads = shape.num_key_value_heads;
  config.model.head_dim.reset();
  for (const char* key :
       {"model.size", "model.hidden_size", "model.intermediate_size", "model.num_hidden_layers",
        "model.num_attention_heads", "model.num_key_value_heads", "model.head_dim"})
    config.origins.by_key.erase(key);
  config.restart = {};
  config.eval.early_stop.reset();
  config.eval.tasks.reset();
  config.log.samples.reset();
  config.checkpoint.keep = 1;
  config.checkpoint.keep_every.reset();
  return config;
}

// Resolves `config` as `train` does, without a model. With train.time it measures.
void resolve_run(Config& config, const PreparedData& data) {
  resolve_runtime(config);
  resolve_document_ends(config);
  resolve_after_data(config, data, /*num_processes=*/1);
}

// ---- The runs that are asked about ----

struct ResolvedRun {
  std::string option;
  Config config;  // resolved
  RunSize size;
  double parameters = 0;
  std::optional<double> seconds;  // where train.time was given

  double cost() const { return token_cost_of(config.model) * size.tokens; }
  double token_cost_of(const ModelConfig& model) const {
    return token_cost(model, *config.model.vocab_size, config.sequence.max_length);
  }
};

// `measured` has the tokens and the parameters that a train.time became before, by its settings;
// a new one is added.
ResolvedRun target_of(const AskedRun& asked, const PreparedData& data, Json& measured) {
  ResolvedRun target = {.option = asked.option,
                        .config = asked.config,
                        .size = {},
                        .parameters = 0,
                        .seconds = asked.config.train.time};
  Config& config = target.config;
  const bool has_size = takes_model_size(config) || config.model.size;
  const Json settings = config_to_json(config);
  const std::string key = str(settings.at("train").dump(), settings.at("model").dump());
  if (target.seconds && measured.contains(key)) {
    set_tokens(config, measured[key].at("tokens"));
    if (has_size) set_model_size(config, measured[key].at("parameters"));
  }
  resolve_run(config, data);
  target.parameters = count_parameters(config.model, *config.model.vocab_size);
  const double text = text_tokens(data);
  target.size = {count_multiplied(config.model, *config.model.vocab_size), run_tokens(config, text),
                 text};
  if (target.seconds) {
    measured[key] = {{"tokens", static_cast<int64_t>(target.size.tokens)},
                     {"parameters", static_cast<int64_t>(target.parameters)}};
  }
  return target;
}

// ---- The ladder ----

struct LadderFile {
  std::vector<Rung> rungs;
  int64_t evaluation_tokens = 0;
  int64_t max_length = 0;  // of a row: losses of other lengths could not be compared
  Json measured = Json::object();
};

fs::path ladder_path(const fs::path& folder) { return folder / "ladder.json"; }

void write_ladder(const fs::path& folder, const LadderFile& ladder, const std::string& key) {
  Json rungs = Json::array();
  for (const Rung& rung : ladder.rungs) {
    rungs.push_back({{"name", rung.name},
                     {"parameters", rung.parameters},
                     {"multiplied", rung.multiplied},
                     {"tokens", rung.tokens},
                     {"seed", rung.seed},
                     {"eval_percent", rung.eval_percent},
                     {"flops", rung.cost},
                     {"lr_factor", rung.lr_factor}});
  }
  const Json json = {{"key", key},
                     {"evaluation_tokens", ladder.evaluation_tokens},
                     {"max_length", ladder.max_length},
                     {"rungs", std::move(rungs)},
                     {"measured", ladder.measured}};
  write_file_atomic(ladder_path(folder), checked_json_text(json));
}

std::optional<LadderFile> read_ladder(const fs::path& folder, const std::string& key) {
  if (!is_there(ladder_path(folder))) {
    const std::vector<std::string> names = list_folder_if_there(folder);
    const auto is_own = [](const std::string& name) {
      return name == ".lock" || name == "ladder.json.tmp";  // as a kill may leave it
    };
    if (std::ranges::all_of(names, is_own)) return std::nullopt;
    throw Error(ErrorKind::kUsage, str("--to ", folder.string(),
                                       " holds other files and no forecast; give a new folder"));
  }
  const nlohmann::json json = read_checked_json(ladder_path(folder), kMostBytes,
                                                "restore it, or give another folder with --to");
  LadderFile ladder;
  try {
    for (const auto& rung : json.at("rungs")) {
      ladder.rungs.push_back({rung.at("name"), rung.at("parameters"), rung.at("multiplied"),
                              rung.at("tokens"), rung.at("seed"), rung.at("eval_percent"),
                              rung.at("flops"), rung.at("lr_factor")});
    }
    ladder.evaluation_tokens = json.at("evaluation_tokens");
    ladder.max_length = json.at("max_length");
    ladder.measured = json.at("measured");
    // A ladder of another version has another key too; its form is what it is refused for.
    if (json.at("key") != key) {
      throw Error(ErrorKind::kUsage,
                  str("the forecast in ", folder.string(),
                      " is of another config or another text; give another folder with --to"));
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::kData, str(ladder_path(folder).string(),
                                      " has another form than this "
                                      "version of lmtrain writes; give another folder with --to"));
  }
  return ladder;
}

LadderFile new_ladder(const ResolvedRun& target, const Config& rungs, const PreparedData& data,
                      double spend) {
  const bool gives_batch = rungs.origins.given("batch.tokens") || !takes_recipe(rungs);
  LadderFile ladder;
  ladder.evaluation_tokens = std::min(*target.config.eval.tokens, data.eval_targets);
  ladder.max_length = target.config.sequence.max_length;
  ladder.rungs = choose_ladder({.model = target.config.model,
                                .vocab_size = *target.config.model.vocab_size,
                                .max_length = ladder.max_length,
                                .batch_tokens = gives_batch ? rungs.batch.tokens : 0,
                                .tokens = target.size.tokens,
                                .text_tokens = target.size.text_tokens,
                                .evaluation_tokens = static_cast<double>(ladder.evaluation_tokens),
                                .spend = spend});
  return ladder;
}

RunFolder folder_of(const fs::path& folder, const Rung& rung) {
  return RunFolder(folder / "rungs" / rung.name);
}

// Trains what is left of the rungs. Returns an exit code other than 0 where one was stopped.
int train_rungs(const LadderFile& ladder, const Config& common, const fs::path& folder) {
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    const RunFolder run = folder_of(folder, rung);
    const std::string state = status_state(run);
    if (state == "done" || state == "diverged") continue;
    log_note(str("rung ", i + 1, " of ", ladder.rungs.size(), ": ", format_count(rung.parameters),
                 " parameters, ", format_count(static_cast<double>(rung.tokens)), " tokens",
                 rung.lr_factor != 1 ? printed(", rates times %.3g", rung.lr_factor) : ""));
    Config config = common;
    config.name = rung.name;
    config.run_dir = run.path().string();
    config.seed = seed_after(config.seed, rung.seed);
    config.optimizer.lr_factor *= rung.lr_factor;
    set_tokens(config, rung.tokens);
    set_model_size(config, rung.parameters);
    config.sequence.max_length = ladder.max_length;
    config.eval.tokens = ladder.evaluation_tokens;
    config.eval.every = {rung.eval_percent, TrainingDuration::Unit::kPercent};
    set_given(config, "sequence.max_length");
    set_given(config, "eval.tokens");
    set_given(config, "eval.every");
    try {
      const int code = train_part(run, config);
      if (code != 0) return code;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNumeric) throw;
      log_warning(str("rung ", rung.name, " is left out: ", error.what()));
    }
  }
  return 0;
}

// ---- What came of the rungs ----

struct TrainedLadder {
  std::vector<const Rung*> rungs;
  std::vector<MeasuredRun> runs;
  std::vector<std::vector<LossPoint>> curves;
  std::vector<double> seconds;  // of training a target
  int unsettled = 0;            // runs of fewer than kSettledSteps
  double bits_per_nat = 0;      // bits per byte of held-out text, for each nat a target
  std::vector<RatePair> rate_pairs;
};

// Pairs each rung of other rates with the rung that has the same size, length and seed.
std::vector<RatePair> pairs_of_rates(const std::vector<std::pair<const Rung*, double>>& losses) {
  std::vector<RatePair> pairs;
  for (const auto& [other, factor_loss] : losses) {
    for (const auto& [rung, loss] : losses) {
      if (other->lr_factor != 1 && rung->lr_factor == 1 && rung->seed == other->seed &&
          rung->parameters == other->parameters && rung->tokens == other->tokens)
        pairs.push_back({other->lr_factor, loss, factor_loss});
    }
  }
  return pairs;
}

TrainedLadder read_rungs(const LadderFile& ladder, const fs::path& folder,
                         const PreparedData& data) {
  TrainedLadder trained;
  std::vector<std::pair<const Rung*, double>> losses;
  for (const Rung& rung : ladder.rungs) {
    const RunFolder run = folder_of(folder, rung);
    if (status_state(run) != "done") continue;
    std::vector<LossPoint> curve;
    double elapsed = 0, tokens = 0, steps = 0;
    for_each_json_line(run.metrics(), [&](const nlohmann::json& line, uint64_t) {
      const double at = number_at(line, "tokens").value_or(0);
      steps = number_at(line, "step").value_or(steps);
      if (const auto seconds = number_at(line, "elapsed")) {
        elapsed = *seconds;
        tokens = at;
      }
      const std::optional<double> loss = number_at(line, "eval_loss");
      if (!loss) return;
      curve.push_back({at, *loss});
      if (const auto bits = number_at(line, "eval_bits_per_byte"))
        trained.bits_per_nat = *bits / *loss;
    });
    const auto planned = static_cast<double>(rung.tokens);
    if (curve.empty() || curve.back().tokens < planned || !(curve.back().loss > 0)) {
      log_warning(str("rung ", rung.name, " is left out: ", run.metrics().string(),
                      " lacks its last evaluation; the same command trains it again after: rm -r ",
                      shell_quoted(run.path().string())));
      continue;
    }
    losses.emplace_back(&rung, curve.back().loss);
    if (rung.lr_factor != 1) continue;
    trained.rungs.push_back(&rung);
    trained.runs.push_back(
        {{rung.multiplied, curve.back().tokens, text_tokens(data)}, curve.back().loss});
    trained.curves.push_back(std::move(curve));
    trained.seconds.push_back(elapsed / std::max(1.0, tokens));
    if (steps < kNearlySettled * kSettledSteps) ++trained.unsettled;
  }
  trained.rate_pairs = pairs_of_rates(losses);
  return trained;
}

// Seconds of training a target, by the FLOPs that it takes: a fixed part, and one in proportion.
struct Speed {
  double fixed = 0, per_flop = 0;
  double seconds(double flops) const { return fixed + per_flop * flops; }
};

// Fits by the least squares of relative errors; neither part is negative.
Speed fit_speed(const std::vector<double>& flops, const std::vector<double>& seconds) {
  double a = 0, b = 0, c = 0, d = 0, e = 0;
  for (size_t i = 0; i < flops.size(); ++i) {
    const double x = 1 / seconds[i], y = flops[i] / seconds[i];
    a += x * x;
    b += x * y;
    c += y * y;
    d += x;
    e += y;
  }
  const double determinant = a * c - b * b;
  Speed speed = {0, e / c};
  if (determinant > 1e-9 * a * c) {
    const Speed both = {(d * c - e * b) / determinant, (a * e - b * d) / determinant};
    if (both.fixed >= 0 && both.per_flop > 0) speed = both;
  }
  return speed;
}

// ---- Answers ----

class Answers {
 public:
  // `program` is MemoryPlan::program.
  Answers(const std::vector<ResolvedRun>& targets, TrainedLadder trained, const PreparedData& data,
          int64_t program)
      : targets_(targets),
        trained_(std::move(trained)),
        data_(data),
        program_(program),
        forecast_(fit_forecast(trained_.runs, *common().model.vocab_size)) {
    if (are_most_rungs_short()) forecast_.drift = kShortRungsDrift;
    std::vector<double> flops;
    for (const Rung* rung : trained_.rungs) flops.push_back(flops_of(*rung));
    std::vector<double> seconds = trained_.seconds;
    for (const ResolvedRun& target : targets_) {
      if (!target.seconds || target.size.tokens < 1) continue;
      flops.push_back(target.token_cost_of(target.config.model));
      seconds.push_back(*target.seconds * (1 - evaluation_part(target)) / target.size.tokens);
    }
    speed_ = fit_speed(flops, seconds);
  }

  // The part that people and programs read.
  Json json() const {
    const LossLaw& law = forecast_.laws.front();
    Json rungs = Json::array();
    for (size_t i = 0; i < trained_.runs.size(); ++i) {
      const RunSize& size = trained_.runs[i].size;
      rungs.push_back({{"name", trained_.rungs[i]->name},
                       {"parameters", trained_.rungs[i]->parameters},
                       {"multiplied", size.parameters},
                       {"tokens", size.tokens},
                       {"passes", size.passes()},
                       {"loss", trained_.runs[i].loss},
                       {"fitted", law.loss(size)},
                       {"seconds", trained_.seconds[i] * size.tokens}});
    }
    Json answers = Json::array();
    for (const ResolvedRun& target : targets_) answers.push_back(answer(target));
    return {{"law",
             {{"floor", law.floor},
              {"height", law.height},
              {"size_factor", law.size_factor},
              {"size_exponent", law.size_exponent},
              {"tokens_factor", law.tokens_factor},
              {"tokens_exponent", law.tokens_exponent},
              {"sharpness", law.sharpness},
              {"worth_of_passes", law.worth_of_passes},
              {"noise", forecast_.noise}}},
            {"rungs", std::move(rungs)},
            {"rates", rates()},
            {"answers", std::move(answers)}};
  }

  // forecast.json: the same, and what a run is compared by.
  Json file_json() const {
    Json laws = Json::array(), course = Json::array();
    for (const LossLaw& law : forecast_.laws) {
      laws.push_back({law.floor, law.height, law.size_factor, law.size_exponent, law.tokens_factor,
                      law.tokens_exponent, law.sharpness, law.worth_of_passes});
    }
    for (const CoursePoint& point :
         mean_course(forecast_.laws.front(), trained_.runs, trained_.curves))
      course.push_back({point.share, point.excess, point.spread});
    Json all = json();
    all["fingerprint"] = data_.fingerprint;
    all["bytes_per_target"] = bytes_per_target(data_);
    all["noise"] = forecast_.noise;
    all["drift"] = forecast_.drift;
    all["reach"] = forecast_.reach;
    all["laws"] = std::move(laws);
    all["course"] = std::move(course);
    return all;
  }

 private:
  const Config& common() const { return targets_.front().config; }
  bool are_most_rungs_short() const {
    return 2 * static_cast<size_t>(trained_.unsettled) > trained_.runs.size();
  }
  double token_cost_of(const ModelConfig& model) const {
    return targets_.front().token_cost_of(model);
  }
  double flops_of(const Rung& rung) const {
    ModelConfig model = common().model;
    set_size(model, *common().model.vocab_size, rung.parameters);
    return token_cost_of(model);
  }
  double evaluation_part(const ResolvedRun& target) const {
    return evaluation_share(target.config, data_,
                            std::min(*target.config.eval.tokens, data_.eval_targets));
  }

  // What the rungs of other rates gain, and the optimizer.lr_factor that a significant gain gives.
  Json rates() const {
    const std::vector<RateGain> gains = rate_gains(trained_.rate_pairs);
    Json tried = Json::array();
    for (const RateGain& gain : gains) {
      tried.push_back({{"factor", gain.factor},
                       {"pairs", gain.pairs},
                       {"gain", gain.gain},
                       {"standard_error", gain.standard_error}});
    }
    Json lr_factor;
    if (const std::optional<double> kept = kept_factor(gains)) {
      constexpr double kDigits = 1e6;
      lr_factor = std::round(kDigits * *kept * common().optimizer.lr_factor) / kDigits;
    }
    return {{"tried", std::move(tried)}, {"lr_factor", std::move(lr_factor)}};
  }

  Json range_json(const LossRange& range, double (*convert)(double), double factor = 1) const {
    return {{"expected", factor * convert(range.expected)},
            {"low", factor * convert(range.low)},
            {"high", factor * convert(range.high)}};
  }

  Json run_json(const RunSize& size, double parameters, double seconds) const {
    const LossRange range = forecast_.at(size);
    const auto same = [](double loss) { return loss; };
    return {{"parameters", static_cast<int64_t>(parameters)},
            {"multiplied", static_cast<int64_t>(size.parameters)},
            {"tokens", static_cast<int64_t>(size.tokens)},
            {"passes", size.passes()},
            {"loss", range_json(range, same)},
            {"bits_per_byte", range_json(range, same, trained_.bits_per_nat)},
            {"perplexity", range_json(range, [](double loss) { return std::exp(loss); })},
            {"seconds", seconds}};
  }

  // The shape of the family, and its tokens, with the lowest loss for these FLOPs.
  Json best_split(const ResolvedRun& target, double flops) const {
    const int64_t vocab_size = *target.config.model.vocab_size;
    std::optional<RunSize> best;
    ModelConfig best_model;
    double least = 0;
    for (const ModelConfig& model : family_of(target.config.model)) {
      const RunSize size = {count_multiplied(model, vocab_size), flops / token_cost_of(model),
                            target.size.text_tokens};
      const double loss = forecast_.laws.front().loss(size);
      if (best && loss >= least) continue;
      best = size;
      best_model = model;
      least = loss;
    }
    return run_json(*best, count_parameters(best_model, vocab_size),
                    seconds_of(target, best_model, best->tokens));
  }

  double seconds_of(const ResolvedRun& target, const ModelConfig& model, double tokens) const {
    return speed_.seconds(token_cost_of(model)) * tokens / (1 - evaluation_part(target));
  }

  Json answer(const ResolvedRun& target) const {
    const Config& config = target.config;
    const double seconds =
        target.seconds.value_or(seconds_of(target, config.model, target.size.tokens));
    Json json = {{"asked", target.option}};
    json.update(run_json(target.size, target.parameters, seconds));
    const int64_t positions = std::max(*config.batch.micro_tokens, config.sequence.max_length);
    json["memory"] = plan_memory(config, precision_of(config), positions).device_total() + program_;
    json["best"] = best_split(target, target.cost());
    json["twice"] = best_split(target, 2 * target.cost());
    json["ten_times"] = best_split(target, 10 * target.cost());
    json["doubts"] = doubts(target);
    return json;
  }

  // Reasons not to believe the answer.
  std::vector<std::string> doubts(const ResolvedRun& target) const {
    double most_cost = 0, most_size = 0, least_size = 1e300, most_passes = 0;
    for (size_t i = 0; i < trained_.runs.size(); ++i) {
      const RunSize& size = trained_.runs[i].size;
      most_cost = std::max(most_cost, flops_of(*trained_.rungs[i]) * size.tokens);
      most_size = std::max(most_size, size.parameters);
      least_size = std::min(least_size, size.parameters);
      most_passes = std::max(most_passes, size.passes());
    }
    std::vector<std::string> doubts;
    const int rungs = count_rungs(trained_.runs);
    if (rungs < 6) doubts.push_back(str("the ladder has only ", rungs, " rungs"));
    if (are_most_rungs_short()) {
      doubts.push_back(
          str(trained_.unsettled, " of ", trained_.runs.size(), " rungs have fewer than ",
              kSettledSteps,
              " steps, and short runs say less about long ones. Ask about a longer run, or give "
              "a higher --spend"));
    }
    if (target.size.passes() > 1 && target.size.passes() > 1.2 * most_passes) {
      doubts.push_back(str("the run makes ", printed("%.1f", target.size.passes()),
                           " passes over its text, and no rung made more than ",
                           printed("%.1f", most_passes)));
    }
    if (target.cost() > 100 * most_cost) {
      doubts.push_back(str("the run costs ", format_count(target.cost() / most_cost),
                           " times as much as the largest rung"));
    }
    if (most_size < 1.5 * least_size)
      doubts.emplace_back("all rungs have one size, so the best split is a guess");
    if (common().origins.given("optimizer.lr"))
      doubts.emplace_back("optimizer.lr is given, and one rate does not fit all sizes");
    return doubts;
  }

  const std::vector<ResolvedRun>& targets_;
  TrainedLadder trained_;
  const PreparedData& data_;
  int64_t program_;
  LossForecast forecast_;
  Speed speed_;
};

// Tells a ladder by all that its rungs depend on.
std::string key_of(const Config& rungs, const PreparedData& data) {
  Json settings = config_to_json(rungs);
  for (const char* key : {"name", "run_dir", "threads", "device", "log"}) settings.erase(key);
  return Hasher().add(settings.dump()).add(data.fingerprint).digest().hex();
}

}  // namespace

ForecastResult make_forecast(const ForecastOrder& order) {
  if (read_launch(process_environment()).count > 1)
    throw Error(ErrorKind::kUsage, "forecast runs in one process; start it without a launcher");
  const Config& given = order.asked.front().config;
  if (given.init_from) {
    throw Error(ErrorKind::kConfig,
                "/init_from: a forecast is of runs from random weights; leave init_from out");
  }
  const Config rungs = config_of_rungs(given);
  Config reading = given;
  resolve_runtime(reading);
  resolve_document_ends(reading);
  const PreparedData data = prepare_data(reading, static_cast<int>(*reading.threads));
  if (!data.eval_shard) {
    throw Error(ErrorKind::kConfig,
                "a forecast is of the held-out loss, and there is no held-out text; set data.eval "
                "or data.eval_fraction");
  }
  const int64_t program = device_of(reading).is_cpu() ? program_bytes() : 0;
  const std::string key = key_of(rungs, data);
  std::optional<LadderFile> ladder = read_ladder(order.folder, key);
  Json measured = ladder ? ladder->measured : Json::object();
  std::vector<ResolvedRun> targets;
  for (const AskedRun& asked : order.asked) targets.push_back(target_of(asked, data, measured));
  const bool is_new = !ladder;
  if (is_new) {
    const ResolvedRun& largest = *std::ranges::max_element(targets, {}, &ResolvedRun::cost);
    ladder = new_ladder(largest, rungs, data, order.spend);
  }
  const RunLock lock = RunFolder(order.folder).lock();
  if (is_new && is_there(ladder_path(order.folder))) {
    throw Error(ErrorKind::kUsage, str("another process has begun a forecast in ",
                                       order.folder.string(), "; give the command again"));
  }
  if (is_new || measured != ladder->measured) {
    ladder->measured = measured;
    write_ladder(order.folder, *ladder, key);
  }
  if (const int code = train_rungs(*ladder, rungs, order.folder); code != 0) {
    log_note("stopped; the same command goes on with the ladder");
    return {code, {}};
  }
  const Answers answers(targets, read_rungs(*ladder, order.folder, data), data, program);
  write_file_atomic(forecast_file(order.folder), checked_json_text(answers.file_json()));
  return {0, answers.json()};
}

}  // namespace lmtrain
