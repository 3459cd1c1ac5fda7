#include "config/recipe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "config/model_family.h"
#include "config/settings.h"
#include "config/units.h"

namespace lmtrain {
namespace {

// The run's length where none is given.
constexpr double kPasses = 4;  // as good as new text up to here (Muennighoff et al. 2023)
constexpr double kMostTokens = 20e6;

// A run of T tokens has batches of kBatchFactor * T^kBatchPower tokens, and of at least
// kLeastBatchOfWidth * hidden_size.
constexpr double kBatchFactor = 0.4;
constexpr double kBatchPower = 0.6;
// The longest rows of a run.
constexpr int64_t kShortest = 128;
constexpr int64_t kLongest = 1024;
// The width at which the rates were measured.
constexpr double kWidth = 256;

constexpr const char* kShapeKeys[] = {"model.hidden_size",         "model.intermediate_size",
                                      "model.num_hidden_layers",   "model.num_attention_heads",
                                      "model.num_key_value_heads", "model.head_dim"};

bool gives_shape(const Config& config) {
  return std::ranges::any_of(kShapeKeys,
                             [&](const char* key) { return config.origins.given(key); });
}

// Sets a setting that is not given, and notes the reason.
class Chooser {
 public:
  explicit Chooser(Config& config) : origins_(config.origins) {}

  template <class T, class Value>
  void choose(const char* key, T& slot, const Value& value, const std::string& reason) {
    if (origins_.given(key)) return;
    slot = value;
    origins_.chosen[key] = reason;
  }

 private:
  ConfigOrigins& origins_;
};

double run_tokens(const Config& config, const RunFacts& facts) {
  const TrainConfig& train = config.train;
  if (train.steps) {
    // Solves T = steps * batch(T) for T.
    const auto steps = static_cast<double>(*train.steps);
    const bool is_given = config.origins.given("batch.tokens") || !takes_recipe(config);
    return is_given ? steps * static_cast<double>(config.batch.tokens)
                    : std::pow(kBatchFactor * steps, 1 / (1 - kBatchPower));
  }
  if (train.epochs && facts.text_tokens) return *train.epochs * *facts.text_tokens;
  return static_cast<double>(train.tokens.value_or(static_cast<int64_t>(kMostTokens)));
}

// Returns how many passes' worth of new text gives the same loss: later passes over a text are
// worth less (Muennighoff et al. 2023, 2305.16264, equation 5).
double worth_of_passes(double passes) {
  constexpr double kWorth = 15.39;
  if (passes <= 1) return passes;
  return 1 + kWorth * (1 - std::exp(-(passes - 1) / kWorth));
}

void choose_length(Config& config, const RunFacts& facts, Chooser& chooser) {
  if (!takes_run_length(config)) return;
  double tokens = kMostTokens;
  if (facts.text_tokens) tokens = std::clamp(kPasses * *facts.text_tokens, 1.0, kMostTokens);
  chooser.choose("train.tokens", config.train.tokens,
                 std::optional<int64_t>(static_cast<int64_t>(tokens)),
                 str("at most ", kPasses, " passes over the text, and at most ",
                     format_count(kMostTokens), " tokens"));
}

// Parts of the shape that are given stay.
void choose_shape(Config& config, const RunFacts& facts, double tokens, double passes) {
  const bool is_auto = takes_model_size(config);
  if (!is_auto && !config.model.size) return;
  const ModelConfig given = config.model;
  ModelConfig& model = config.model;
  std::string reason;
  if (is_auto) {
    const double worth = passes > 1 ? tokens * worth_of_passes(passes) / passes : tokens;
    set_multiplied(model, facts.vocab_size, worth / tokens_per_parameter(worth));
    reason = str("the size that ", format_count(tokens), " tokens train best");
  } else {
    set_size(model, facts.vocab_size,
             static_cast<double>(parse_tokens(*model.size).value_or(1'000'000)));
    reason = str("model.size ", *model.size);
  }
  const auto keep = [&](const char* key, auto& slot, const auto& value) {
    if (config.origins.given(key)) {
      slot = value;
    } else {
      config.origins.chosen[key] = reason;
    }
  };
  keep("model.hidden_size", model.hidden_size, given.hidden_size);
  keep("model.intermediate_size", model.intermediate_size, given.intermediate_size);
  keep("model.num_hidden_layers", model.num_hidden_layers, given.num_hidden_layers);
  keep("model.num_attention_heads", model.num_attention_heads, given.num_attention_heads);
  if (config.origins.given("model.num_attention_heads"))
    model.num_key_value_heads = model.num_attention_heads;
  keep("model.num_key_value_heads", model.num_key_value_heads, given.num_key_value_heads);
  if (config.origins.given("model.head_dim")) model.head_dim = given.head_dim;
}

double wanted_batch(const Config& config, double tokens) {
  return std::max(kLeastBatchOfWidth * static_cast<double>(config.model.hidden_size),
                  kBatchFactor * std::pow(tokens, kBatchPower));
}

// The longest rows grow with the root of the text that a run sees: 128 was best for 0.1M tokens of
// it, 256 for 1M, and 512 for 4.2M. A batch should have at least four rows: with fewer, its
// positions are too much alike.
void choose_max_length(Config& config, const RunFacts& facts, double tokens, Chooser& chooser) {
  constexpr double kOfRoot = 0.28;
  constexpr double kRows = 4;
  if (!takes_max_length(config)) return;
  SequenceConfig& sequence = config.sequence;
  const double batch = config.origins.given("batch.tokens")
                           ? static_cast<double>(config.batch.tokens)
                           : wanted_batch(config, tokens);
  const double seen = std::min(tokens, facts.text_tokens.value_or(tokens));
  const double longest = std::min(batch / kRows, kOfRoot * std::sqrt(seen));
  const auto most = std::bit_floor(static_cast<uint64_t>(std::max(1.0, longest)));
  const int64_t shortest = shortest_max_length(config);
  int64_t length = std::max(shortest, std::min(static_cast<int64_t>(most), kLongest));
  const auto divides = [&](const char* key, int64_t value) {
    return !config.origins.given(key) || value % length == 0;
  };
  const auto fits = [&] {
    return divides("batch.tokens", config.batch.tokens) &&
           divides("batch.micro_tokens", config.batch.micro_tokens.value_or(0));
  };
  const auto least_power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(shortest)));
  while (length > least_power && !fits()) length /= 2;
  for (const int64_t last : {shortest, least_power})
    if (!fits()) length = last;
  chooser.choose(
      "sequence.max_length", sequence.max_length, length,
      str("by the ", format_count(seen), " tokens of text that the run sees; a batch has at least ",
          kRows, " rows of it"));
}

// The batch grows with the run's tokens: 1,024 at 1M, 2,048 at 2.2M and 4.4M were measured, and the
// law gives 0.5M at 30B (Brown et al. 2020).
int64_t batch_tokens(const Config& config, const RunFacts& facts, double tokens) {
  constexpr int64_t kMost = int64_t{1} << 23;
  const double at_most = std::min(wanted_batch(config, tokens), static_cast<double>(kMost));
  const auto wanted = std::bit_floor(static_cast<uint64_t>(at_most));
  int64_t unit = config.sequence.max_length * std::max<int64_t>(1, facts.num_processes);
  if (config.batch.micro_tokens && config.origins.given("batch.micro_tokens"))
    unit = std::lcm(unit, *config.batch.micro_tokens);
  const int64_t most = std::max(unit, kMost / unit * unit);
  return std::clamp(static_cast<int64_t>(wanted) / unit * unit, unit, most);
}

// Returns the factor on all rates of a run of T tokens; 1 for a short run. The best rate falls as a
// power of T (Bjorck et al. 2024, 2409.19913). Runs of 1M and 4.6M tokens were measured; above
// 26M tokens the rates fall no further.
double rate_factor(double tokens) {
  constexpr double kTokens = 1.5e6;
  constexpr double kPower = 0.32;
  constexpr double kLeast = 0.4;
  return std::clamp(std::pow(kTokens / tokens, kPower), kLeast, 1.0);
}

// 0.85 was measured at 440 to 2,250 steps. 0.95 is usual in runs of many thousands.
double momentum(double steps) {
  constexpr double kSteps = 2250;
  const double forgets = 0.15 * std::sqrt(kSteps / std::max(steps, kSteps));
  return std::round(1000 * (1 - std::max(forgets, 0.05))) / 1000;
}

// Rounds to three digits, so that a person sees the value that the run computes with.
double rounded(double value) {
  const double scale = std::pow(10, 2 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

// The best single rate for all tensors at width 128 (docs/benchmarks/2026-11-21-optimizers.md).
double rate_of_type(OptimizerType type) {
  switch (type) {
    case OptimizerType::kLion:
      return 1.2e-3;
    case OptimizerType::kSoap:
      return 8e-3;
    case OptimizerType::kAdEMAMix:
      return 2e-3;
    default:
      return optimizer_defaults(type).lr;
  }
}

// Returns the distance, in percent of the run, at which evaluations of 131,072 tokens cost
// kMostEvalShare, if a token costs a third of a token of training: blocks of held-out text differ
// by more than runs do, so that the loss of a few blocks says little. Four evaluations are enough
// to find a good checkpoint.
double evaluation_percent(double tokens) {
  constexpr double kTokens = 131072;
  const double number = std::clamp(kMostEvalShare * tokens / (kTokens / 3), 4.0, 20.0);
  return std::round(100 / number);
}

using Groups = std::vector<OptimizerGroupConfig>;

void choose_muon(Config& config, double tokens, double steps, Chooser& chooser) {
  OptimizerConfig& optimizer = config.optimizer;
  const auto width = static_cast<double>(config.model.hidden_size);
  const double factor = rate_factor(tokens);
  const double lr = rounded(factor * 5e-3 * std::sqrt(kWidth / width));
  chooser.choose("optimizer.lr", optimizer.lr, lr,
                 str("5e-3 times the root of 256 / width, times ", printed("%.2f", factor),
                     " by the ", format_count(tokens), " tokens of the run"));
  Groups groups;
  // The norm of a query or key head has the rate of the matrices.
  if (config.model.has_qk_norm()) groups.push_back({"*.self_attn.?_norm.weight", lr, std::nullopt});
  const double tied = config.model.tie_word_embeddings ? std::min(1.0, kWidth / width) : 1;
  groups.push_back({"model.embed_tokens.weight", rounded(factor * 8e-2 * tied), std::nullopt});
  if (!config.model.tie_word_embeddings)
    groups.push_back(
        {"lm_head.weight", rounded(factor * 1e-2 * std::min(1.0, kWidth / width)), std::nullopt});
  groups.push_back({"*norm.weight", rounded(factor * 5e-2), std::nullopt});
  chooser.choose("optimizer.groups", optimizer.groups, groups,
                 "rates of embedding, head and norms of their own gain 0.2 to 0.4 in loss");
  chooser.choose("optimizer.momentum", optimizer.momentum, momentum(steps),
                 str("by the ", format_count(steps), " steps"));
  chooser.choose("optimizer.ns_coefficients", optimizer.ns_coefficients,
                 NsCoefficients::kPolarExpress, "three iterations do what five of quintic do");
  chooser.choose("optimizer.ns_steps", optimizer.ns_steps, 3, "enough with polar_express");
  chooser.choose("optimizer.normuon", optimizer.normuon, true, "gains 0.01 in loss");
  chooser.choose("optimizer.betas", optimizer.betas, std::vector<double>{0.9, 0.99},
                 "gains 0.02 in loss to 0.95");
}

// Types whose update is of Adam's size. Their rate falls as the width grows (Yang et al. 2022,
// 2203.03466).
void choose_adam_like(Config& config, Chooser& chooser) {
  OptimizerConfig& optimizer = config.optimizer;
  const double widths = kWidth / static_cast<double>(config.model.hidden_size);
  if (optimizer.type == OptimizerType::kAdamW) {
    const double lr = rounded(1e-3 * widths);
    chooser.choose("optimizer.lr", optimizer.lr, lr,
                   "1e-3 times 256 / width, measured at widths 128 to 512");
    Groups groups;
    if (config.model.has_qk_norm())
      groups.push_back({"*.self_attn.?_norm.weight", lr, std::nullopt});
    groups.push_back({"model.embed_tokens.weight", 2e-2, std::nullopt});
    groups.push_back({"*norm.weight", 2e-2, std::nullopt});
    chooser.choose("optimizer.groups", optimizer.groups, groups,
                   "rates of embedding and norms gain 1.0 in loss in short runs");
  } else {
    const bool follows = takes_base_width(optimizer.type);
    chooser.choose("optimizer.lr", optimizer.lr,
                   rounded(rate_of_type(optimizer.type) * (follows ? widths / 2 : 1)),
                   "the best of one rate for all tensors at width 128");
  }
}

// A run that goes over its text more than once learns it by heart unless its weights decay faster,
// and the sooner, the more parameters of count_multiplied() there are for each token of the text.
// Measured at 4 to 40 passes and 0.7 to 45 such parameters
// (docs/benchmarks/2026-11-27-recipe-grid.md).
void choose_decay(Config& config, double passes, double parameters_per_token, Chooser& chooser) {
  OptimizerConfig& optimizer = config.optimizer;
  double decay = optimizer_defaults(optimizer.type).weight_decay;
  std::string reason = str("by the ", printed("%.1f", passes), " passes over the text");
  if (passes > 1 && decay > 0) {
    constexpr double kMost = 6;
    const double law = 0.55 * decay * std::pow(passes, 1.13) * std::pow(parameters_per_token, 0.4);
    decay = std::max(decay, rounded(std::min(kMost, law)));
    reason +=
        str(", ", printed("%.2g", parameters_per_token), " parameters for each of its tokens");
  }
  chooser.choose("optimizer.weight_decay", optimizer.weight_decay, decay, reason);
}

// Returns the factor of the rate of a layer's matrix for a ratio of widths, base to own, with which
// a step changes the outputs of the matrix by as much (Yang et al. 2022, 2203.03466). At one rate a
// step of Adam's size changes them in proportion to the width, and one of Muon's, whose singular
// values are equal, in proportion to its root, or, with `original`, by as much.
double rate_ratio(const OptimizerConfig& optimizer, double widths) {
  if (optimizer.type != OptimizerType::kMuon) return widths;
  return optimizer.adjust_lr == AdjustLr::kMatchRmsAdamW ? std::sqrt(widths) : 1;
}

// Returns the groups that optimizer.base_width, which must be given, stands for.
std::vector<OptimizerGroupConfig> groups_of_base_width(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const double widths =
      static_cast<double>(*optimizer.base_width) / static_cast<double>(config.model.hidden_size);
  std::vector<OptimizerGroupConfig> groups;
  const auto add = [&](const char* pattern, double ratio) {
    groups.push_back({pattern, optimizer.lr * ratio, std::nullopt});
  };
  add("model.layers.*_proj.weight", rate_ratio(optimizer, widths));
  if (!config.model.tie_word_embeddings) add("lm_head.weight", widths);
  return groups;
}

}  // namespace

bool takes_recipe(const Config& config) {
  return config.origins.by_person && !config.init_from && !config.origins.given("optimizer.lr");
}

bool takes_run_length(const Config& config) {
  const auto given = [&](const char* key) { return config.origins.given(key); };
  return takes_recipe(config) && !given("train.steps") && !given("train.tokens") &&
         !given("train.epochs") && !given("train.time");
}

bool takes_model_size(const Config& config) {
  if (!config.origins.by_person) return false;
  if (config.model.size) return config.model.size == "auto";
  return takes_recipe(config) && !gives_shape(config);
}

bool takes_max_length(const Config& config) {
  return takes_recipe(config) && !config.origins.given("sequence.max_length") &&
         config.sequence.schedule.lengths.empty();
}

int64_t shortest_max_length(const Config& config) {
  const bool is_given = config.origins.given("sequence.min_length");
  return is_given ? std::max(kShortest, config.sequence.min_length) : kShortest;
}

// Measured on 0.1 to 41 MB of text (docs/benchmarks/2026-11-27-recipe-grid.md).
int64_t vocab_size_for(double text_bytes) {
  int64_t size = 512;
  for (double bytes = text_bytes; bytes >= 24e3 && size < kMostChosenPieces; bytes /= 8) size *= 2;
  return size;
}

// 3 is the best of three ratios at 1.9M tokens (docs/recipe.md), and 20 is Hoffmann et al. 2022's
// at a billion and more. Between them the ratio is a power of the tokens.
double tokens_per_parameter(double tokens) {
  return std::clamp(3 * std::pow(tokens / 2e6, 0.3), 1.0, 20.0);
}

void choose_settings(Config& config, const RunFacts& facts) {
  Chooser chooser(config);
  choose_length(config, facts, chooser);
  const bool recipe = takes_recipe(config);
  if (recipe) {
    chooser.choose("model.tie_word_embeddings", config.model.tie_word_embeddings, false,
                   "a head of its own gains in loss and costs no time");
    chooser.choose("model.initializer", config.model.initializer, Initializer::kZeroOutputs,
                   "layers add nothing at first");
  }
  const double tokens = run_tokens(config, facts);
  const double passes =
      facts.text_tokens && *facts.text_tokens > 0 ? tokens / *facts.text_tokens : 1;
  if (!facts.keeps_size) choose_shape(config, facts, tokens, passes);
  if (!recipe) return;

  choose_max_length(config, facts, tokens, chooser);
  chooser.choose("batch.tokens", config.batch.tokens, batch_tokens(config, facts, tokens),
                 str("by the ", format_count(tokens), " tokens of the run"));
  if (config.sequence.has_buckets())
    chooser.choose("sequence.schedule.cycles", config.sequence.schedule.cycles, 1,
                   "one run from short to long gains 0.02 to 0.05 in loss to four");
  chooser.choose("optimizer.type", config.optimizer.type, OptimizerType::kMuon,
                 "the lowest loss at equal tokens of all types");
  const double steps = config.train.steps ? static_cast<double>(*config.train.steps)
                                          : tokens / static_cast<double>(config.batch.tokens);
  if (config.optimizer.type == OptimizerType::kMuon) {
    choose_muon(config, tokens, steps, chooser);
  } else {
    choose_adam_like(config, chooser);
  }
  choose_decay(config, passes, count_multiplied(config.model, facts.vocab_size) * passes / tokens,
               chooser);
  chooser.choose(
      "eval.every", config.eval.every,
      TrainingDuration{evaluation_percent(tokens), TrainingDuration::Unit::kPercent},
      str("evaluations are to cost ", printed("%.0f", 100 * kMostEvalShare), " % of the run"));
  LrScheduleConfig& schedule = config.lr_schedule;
  chooser.choose("lr_schedule.type", schedule.type, LrScheduleType::kLinear,
                 "a fall to nothing, in a line (Defazio et al. 2023)");
  double warmup = 2;  // percent
  if (schedule.type == LrScheduleType::kWsd &&
      schedule.decay.unit == TrainingDuration::Unit::kPercent)
    warmup = std::min(warmup, 100 - schedule.decay.value);
  chooser.choose("lr_schedule.warmup", schedule.warmup,
                 TrainingDuration{warmup, TrainingDuration::Unit::kPercent}, "short");
  chooser.choose("lr_schedule.min_ratio", schedule.min_ratio, 0.0, "a fall to nothing");
}

void write_out_base_width(Config& config, bool is_of_run) {
  OptimizerConfig& optimizer = config.optimizer;
  if (!optimizer.base_width || !takes_base_width(optimizer.type)) return;
  if (takes_recipe(config)) return;  // check_config refuses it
  const std::vector<OptimizerGroupConfig> groups = groups_of_base_width(config);
  const bool are_there = optimizer.groups.size() >= groups.size() &&
                         std::equal(groups.rbegin(), groups.rend(), optimizer.groups.rbegin());
  if (is_of_run && !are_there) return;
  if (!is_of_run) optimizer.groups.insert(optimizer.groups.end(), groups.begin(), groups.end());
  optimizer.base_width.reset();
  std::map<std::string, std::string>& origins = config.origins.by_key;
  origins.try_emplace("optimizer.groups",
                      str("optimizer.base_width, ", origins["optimizer.base_width"]));
  origins.erase("optimizer.base_width");
}

void end_choice(Config& config) {
  if (config.model.size) write_out_base_width(config, /*is_of_run=*/false);
  config.model.size.reset();
  config.train.time.reset();
}

}  // namespace lmtrain
