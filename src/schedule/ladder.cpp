#include "schedule/ladder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "config/model_family.h"
#include "schedule/loss_law.h"

namespace lmtrain {
namespace {

constexpr double kStep = 3;              // from the cost of a rung to the next
constexpr int kSteps = 5;                // costs
constexpr int kWings = 2;                // the cost at which size and tokens are told apart
constexpr double kLeastSteps = 32;       // of a rung
constexpr double kLeastTokens = 1e4;     // the batch of fewer is less than 32nd of them
constexpr double kEvaluation = 1.0 / 3;  // the cost of a token, to that of a token trained
constexpr double kEvaluationShare = 0.2;

class Ladder {
 public:
  explicit Ladder(const LadderSpec& spec) : spec_(spec), family_(family_of(spec.model)) {}

  // Adds a rung of about `parameters` that costs at most `cost`, unless one like it is there.
  void add(double parameters, double cost, int64_t seed = 0) {
    const ModelConfig& model = nearest(parameters);
    Rung rung = {.parameters = count_parameters(model, spec_.vocab_size),
                 .multiplied = count_multiplied(model, spec_.vocab_size),
                 .seed = seed};
    const double of_token = token_cost(model, spec_.vocab_size, spec_.max_length);
    // Evaluations take at most a part of it, but at least four are between the first and the last.
    const double all = cost / of_token;
    const double evaluation = std::max(1.0, kEvaluation * spec_.evaluation_tokens);
    const double between =
        std::clamp(std::floor(kEvaluationShare * all / evaluation) - 2, 4.0, 19.0);
    rung.tokens = static_cast<int64_t>(all - (between + 2) * evaluation);
    rung.eval_percent = std::ceil(100 / (between + 1));
    rung.cost = cost;
    if (static_cast<double>(rung.tokens) < least_tokens()) return;
    const bool is_there = std::ranges::any_of(rungs_, [&](const Rung& other) {
      return other.seed == seed && other.parameters == rung.parameters &&
             std::abs(std::log(static_cast<double>(other.tokens) /
                               static_cast<double>(rung.tokens))) < 0.2;
    });
    if (is_there) return;
    rung.name =
        str(format_count(rung.parameters), "-", format_count(static_cast<double>(rung.tokens)),
            seed > 0 ? str("-seed", seed + 1) : "");
    rungs_.push_back(rung);
  }

  // Builds the ladder whose largest rung costs `cost`.
  void build(double cost) {
    rungs_.clear();
    const double multiplied = count_multiplied(spec_.model, spec_.vocab_size);
    const double run = token_cost(spec_.model, spec_.vocab_size, spec_.max_length) * spec_.tokens;
    const auto size_at = [&](double part) { return multiplied * std::sqrt(part / run); };
    for (int step = 0; step < kSteps; ++step) {
      const double part = cost / std::pow(kStep, step);
      add(size_at(part), part);
      if (step != kWings) continue;
      add(size_at(part) * kStep, part);
      add(size_at(part) / kStep, part);
    }
    if (spec_.tokens > spec_.text_tokens) add(0, std::min(cost / kStep, cost_of_smallest()));
    for (int step = kSteps - 2; step < kSteps; ++step) {
      const double part = cost / std::pow(kStep, step);
      add(size_at(part), part, 1);
    }
  }

  double cost() const {
    double sum = 0;
    for (const Rung& rung : rungs_) sum += rung.cost;
    return sum;
  }
  int count() const {
    return static_cast<int>(
        std::ranges::count_if(rungs_, [](const Rung& r) { return r.seed == 0; }));
  }
  std::vector<Rung> rungs() const {
    std::vector<Rung> sorted = rungs_;
    std::ranges::stable_sort(sorted, {}, &Rung::cost);
    return sorted;
  }

 private:
  const ModelConfig& nearest(double parameters) const {
    const auto distance = [&](const ModelConfig& model) {
      return std::abs(
          std::log(count_multiplied(model, spec_.vocab_size) / std::max(1.0, parameters)));
    };
    return *std::ranges::min_element(family_, {}, distance);
  }
  // Of the run's tokens, trained by the smallest model.
  double cost_of_smallest() const {
    return token_cost(family_.front(), spec_.vocab_size, spec_.max_length) *
           (spec_.tokens + 21 * kEvaluation * spec_.evaluation_tokens);
  }
  double least_tokens() const {
    const auto row = static_cast<double>(std::max(spec_.max_length, spec_.batch_tokens));
    return std::max(kLeastTokens, kLeastSteps * row);
  }

  const LadderSpec& spec_;
  std::vector<ModelConfig> family_;
  std::vector<Rung> rungs_;
};

}  // namespace

double token_cost(const ModelConfig& model, int64_t vocab_size, int64_t max_length) {
  const auto attention = static_cast<double>(model.num_hidden_layers * model.num_attention_heads *
                                             model.resolved_head_dim());
  return 6 * count_multiplied(model, vocab_size) + 6 * attention * static_cast<double>(max_length);
}

std::vector<Rung> choose_ladder(const LadderSpec& spec) {
  const double run = token_cost(spec.model, spec.vocab_size, spec.max_length) * spec.tokens;
  const double most = spec.spend * run;
  Ladder ladder(spec);
  constexpr double kFiner = 0.97;
  double cost = most;
  do {
    ladder.build(cost);
    cost *= kFiner;
  } while (ladder.cost() > most);
  if (ladder.count() >= kLeastRungs) return ladder.rungs();
  throw Error(
      ErrorKind::kUsage,
      str("a ladder for ", printed("%.3g %%", 100 * spec.spend), " of a run of ",
          format_count(spec.tokens), " tokens has ", ladder.count(), " of the ", kLeastRungs,
          " rungs that a forecast needs, each of at least 32 steps; ask for a longer run, or give "
          "a higher --spend"));
}

}  // namespace lmtrain
