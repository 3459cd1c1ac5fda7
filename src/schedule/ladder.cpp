#include "schedule/ladder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "config/model_family.h"
#include "config/recipe.h"
#include "schedule/loss_law.h"

namespace lmtrain {
namespace {

constexpr double kSteepness[] = {3, 2, 1.5};  // from the cost of a rung to the next
constexpr int kEnough = 6;                    // rungs
constexpr int kSteps = 5;                     // costs
constexpr double kLeastSteps = 32;            // of a rung
constexpr double kLeastTokens = 1e4;          // the batch of fewer is less than 32nd of them
constexpr double kSettledTokens = 1e6;        // the recipe's batch makes kSettledSteps of them
constexpr double kEvaluation = 1.0 / 3;       // the cost of a token, to that of a token trained
constexpr double kEvaluationShare = 0.2;
constexpr double kBetween = 4, kMostBetween = 19;  // evaluations between the first and the last
constexpr double kWing = 3;                        // from the size of a rung to its wings
constexpr double kRateFactors[] = {0.7, 1.4};      // that all rates are tried with
constexpr double kRatesShare = 0.1;  // of the FLOPs to spend, for rungs of these rates

double cost_of(const std::vector<Rung>& rungs) {
  double sum = 0;
  for (const Rung& rung : rungs) sum += rung.cost;
  return sum;
}

// Returns how many rungs there are, second seeds left out.
int count_sizes(const std::vector<Rung>& rungs) {
  return static_cast<int>(std::ranges::count_if(rungs, [](const Rung& r) { return r.seed == 0; }));
}

class Ladder {
 public:
  // With `settled` each rung has kSettledSteps, and else only kLeastSteps.
  Ladder(const LadderSpec& spec, double steepness, bool settled)
      : spec_(spec), steepness_(steepness), settled_(settled), family_(family_of(spec.model)) {}

  // Adds a rung of about `parameters` whose training costs `cost`, unless a similar rung exists. At
  // least `least_between` evaluations come between its first and its last.
  void add(double parameters, double cost, double least_between = 0, int64_t seed = 0) {
    const ModelConfig& model = nearest(parameters);
    Rung rung = {.parameters = count_parameters(model, spec_.vocab_size),
                 .multiplied = count_multiplied(model, spec_.vocab_size),
                 .seed = seed};
    const double of_token = token_cost(model, spec_.vocab_size, spec_.max_length);
    rung.tokens = static_cast<int64_t>(cost / of_token);
    const double evaluation = std::max(1.0, kEvaluation * spec_.evaluation_tokens);
    const double affordable = std::floor(kEvaluationShare * cost / of_token / evaluation) - 2;
    const double between = std::clamp(affordable, least_between, kMostBetween);
    rung.eval_percent = std::ceil(100 / (between + 1));
    rung.cost = cost + (between + 2) * evaluation * of_token;
    if (static_cast<double>(rung.tokens) < least_tokens(model)) return;
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

  // Builds the ladder; training its largest rung costs `cost`.
  void build(double cost) {
    rungs_.clear();
    const double multiplied = count_multiplied(spec_.model, spec_.vocab_size);
    const double run = token_cost(spec_.model, spec_.vocab_size, spec_.max_length) * spec_.tokens;
    const double smallest = count_multiplied(family_.front(), spec_.vocab_size);
    const auto size_at = [&](double part) {
      return std::max(smallest, multiplied * std::sqrt(part / run));
    };
    for (int step = 0; step < kSteps; ++step) {
      const double part = cost / std::pow(steepness_, step);
      add(size_at(part), part, step < 2 ? kBetween : 0);
      // Size and tokens are told apart by a larger model, and by a smaller one.
      if (step == 1) add(size_at(part) * kWing, part);
      if (step == 2) add(size_at(part) / kWing, part);
    }
    if (spec_.tokens > spec_.text_tokens) add(0, std::min(cost / steepness_, cost_of_smallest()));
    for (int step = kSteps - 2; step < kSteps; ++step) {
      const double part = cost / std::pow(steepness_, step);
      add(size_at(part), part, 0, 1);
    }
  }

  double cost() const { return cost_of(rungs_); }
  int count() const { return count_sizes(rungs_); }
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
  // The cost of the run's tokens with the smallest model.
  double cost_of_smallest() const {
    return token_cost(family_.front(), spec_.vocab_size, spec_.max_length) * spec_.tokens;
  }
  double least_tokens(const ModelConfig& model) const {
    const auto row = static_cast<double>(std::max(spec_.max_length, spec_.batch_tokens));
    if (!settled_) return std::max(kLeastTokens, kLeastSteps * row);
    if (spec_.batch_tokens > 0) return kSettledSteps * row;
    const auto batch = std::max(row, kLeastBatchOfWidth * static_cast<double>(model.hidden_size));
    return std::max(kSettledTokens, kSettledSteps * batch);
  }

  const LadderSpec& spec_;
  double steepness_;
  bool settled_;
  std::vector<ModelConfig> family_;
  std::vector<Rung> rungs_;
};

// Returns the ladder with the most rungs that `most` FLOPs pay for, up to kEnough.
std::vector<Rung> affordable_rungs(const LadderSpec& spec, double most, bool settled) {
  std::vector<Rung> best;
  for (const double steepness : kSteepness) {
    Ladder ladder(spec, steepness, settled);
    constexpr double kFiner = 0.97;
    double cost = most;
    do {
      ladder.build(cost);
      cost *= kFiner;
    } while (ladder.cost() > most);
    if (ladder.count() <= count_sizes(best)) continue;
    best = ladder.rungs();
    if (ladder.count() >= kEnough) break;
  }
  return best;
}

// Adds runs with other rates for each rung that has a second seed, the cheapest rung first, while
// `most` FLOPs pay for the whole ladder. Returns whether it added any.
bool add_other_rates(std::vector<Rung>& rungs, double most) {
  double left = most - cost_of(rungs);
  std::vector<Rung> added;
  for (const Rung& second : rungs) {
    if (second.seed == 0) continue;
    std::vector<Rung> of_rung;
    for (const Rung& rung : rungs) {
      if (rung.parameters != second.parameters || rung.tokens != second.tokens) continue;
      for (const double factor : kRateFactors) {
        of_rung.push_back(rung);
        of_rung.back().lr_factor = factor;
        of_rung.back().name += printed("-lr%.3g", factor);
      }
    }
    left -= cost_of(of_rung);
    if (left < 0) break;
    added.insert(added.end(), of_rung.begin(), of_rung.end());
  }
  rungs.insert(rungs.end(), added.begin(), added.end());
  std::ranges::stable_sort(rungs, {}, &Rung::cost);
  return !added.empty();
}

}  // namespace

double token_cost(const ModelConfig& model, int64_t vocab_size, int64_t max_length) {
  const auto attention = static_cast<double>(model.num_hidden_layers * model.num_attention_heads *
                                             model.resolved_head_dim());
  return 6 * count_multiplied(model, vocab_size) + 6 * attention * static_cast<double>(max_length);
}

std::vector<Rung> choose_ladder(const LadderSpec& spec) {
  const double run = token_cost(spec.model, spec.vocab_size, spec.max_length) * spec.tokens;
  const double most = spec.spend * run;
  // What a rate gains in a few steps says nothing of long runs.
  std::vector<Rung> rungs = affordable_rungs(spec, (1 - kRatesShare) * most, /*settled=*/true);
  if (count_sizes(rungs) >= kEnough && add_other_rates(rungs, most)) return rungs;
  rungs = affordable_rungs(spec, most, /*settled=*/true);
  if (count_sizes(rungs) >= kEnough) return rungs;
  rungs = affordable_rungs(spec, most, /*settled=*/false);
  const int count = count_sizes(rungs);
  if (count >= kLeastRungs) return rungs;
  throw Error(
      ErrorKind::kUsage,
      str("a ladder for ", printed("%.3g %%", 100 * spec.spend), " of a run of ",
          format_count(spec.tokens), " tokens has ", count, " of the ", kLeastRungs,
          " rungs that a forecast needs, each of at least 32 steps; ask for a longer run, or give "
          "a higher --spend"));
}

}  // namespace lmtrain
