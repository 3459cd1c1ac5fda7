#include "training/choices.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "batching/batch_order.h"
#include "config/model_family.h"
#include "config/parse.h"
#include "config/recipe.h"
#include "config/units.h"
#include "device/device.h"
#include "eval/eval_share.h"
#include "formats/token_shard.h"
#include "training/bench.h"
#include "training/expected_loss.h"
#include "training/load_run.h"
#include "training/matmul_rate.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;

// The rate of a step, as a part of the best matrix product's, before a step is measured.
constexpr double kShareOfProducts = 0.5;
// Parts of train.time: for a round of measuring, and for all that is no step (checkpoints, the
// start and the end of the process).
constexpr double kMeasuringShare = 0.01;
constexpr double kMostMeasuring = 30;  // seconds of a round
constexpr double kOtherShare = 0.03;
constexpr double kOtherSeconds = 0.5;

// Returns the tokens a second of a run of this config, by the lengths that it has.
double measured_rate(const Config& config, const PreparedData& data, double seconds,
                     int num_processes) {
  const TokenShard shard(data.train_shard, /*verify_tokens=*/false);
  const BatchOrder order(order_spec(config, data, shard));
  const std::vector<int64_t> lengths = order.batch_lengths();
  const std::vector<int64_t> counts = order.count_lengths(0, order.num_batches());
  const std::vector<double> steps = measure_steps(config, lengths, seconds, num_processes);
  double sum = 0;
  for (size_t i = 0; i < lengths.size(); ++i) sum += static_cast<double>(counts[i]) * steps[i];
  return static_cast<double>(order.num_targets()) / sum;
}

// Sets train.tokens to what train.time can train, and chooses model and recipe for that.
void fit_time(Config& config, const PreparedData& data, RunFacts facts, const Processes& processes,
              const std::optional<int64_t>& micro_tokens) {
  const auto begin = Clock::now();
  const double time = *config.train.time;
  const double of_a_round = std::min(kMostMeasuring, kMeasuringShare * time);
  constexpr double kWorthSaying = 2;
  if (of_a_round > kWorthSaying) {
    log_note(str("train.time ", write_duration(time), ": measuring steps, in one or two rounds of ",
                 format_duration(of_a_round)));
  }
  const auto num_processes = static_cast<int>(facts.num_processes);
  const auto choose_for = [&](double tokens) {
    config.train.tokens = std::max<int64_t>(1, static_cast<int64_t>(tokens));
    choose_settings(config, facts);
    config.batch.micro_tokens = micro_tokens;
    resolve_micro_tokens(config, num_processes, processes);
  };
  // The rate of the machine, in parameters times tokens a second.
  double rate = num_processes * kShareOfProducts / 6 *
                best_matmul_rate(device_of(config), precision_of(config).dtype);
  const bool is_auto = takes_model_size(config);
  const auto multiplied = [&] { return count_multiplied(config.model, facts.vocab_size); };
  // Parameters times tokens is rate times time; their ratio is a function of the tokens.
  const auto best_tokens = [&] {
    double tokens = std::sqrt(rate * time);
    for (int i = 0; i < 50; ++i) tokens = std::sqrt(rate * time * tokens_per_parameter(tokens));
    return tokens;
  };

  choose_settings(config, facts);
  facts.keeps_size = !is_auto;
  choose_for(is_auto ? best_tokens() : rate * time / multiplied());
  // A second round, if the first finds another size, batch or rows.
  double tokens_per_second = 0;
  for (int round = 0; round < 2; ++round) {
    const Config measured = config;
    tokens_per_second = measured_rate(config, data, of_a_round, num_processes);
    rate = tokens_per_second * multiplied();
    if (is_auto && round == 0) choose_for(best_tokens());
    facts.keeps_size = true;
    choose_for(tokens_per_second * time);
    const bool is_same = config.model == measured.model && config.batch == measured.batch &&
                         config.sequence == measured.sequence;
    if (is_same) break;
  }
  // A change of the batch in the last round changes the rate a little.
  const double left =
      std::max(0.1 * time, (1 - kOtherShare) * time - kOtherSeconds - seconds_since(begin));
  double tokens = tokens_per_second * left;
  choose_for(tokens);
  Config evaluated = config;
  resolve_eval_tokens(evaluated, data);
  tokens *=
      1 - evaluation_share(evaluated, data, std::min(*evaluated.eval.tokens, data.eval_targets));
  tokens = std::max(tokens, static_cast<double>(config.batch.tokens));
  choose_for(tokens);
  // A run that may begin again has only the estimate.
  if (config.restart.seeds == 1 && !config.restart.on_divergence)
    config.train.ends_at =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time));
  log_note(str("train.time ", write_duration(time), ": ",
               format_count(static_cast<double>(*config.train.tokens)), " tokens at ",
               format_count(tokens_per_second), " a second, ",
               printed("%.2f", tokens / std::max(1.0, facts.text_tokens.value_or(1))),
               " passes over the text"));
}

void require_shape(const ModelConfig& model) {
  const bool divides = model.hidden_size % model.num_attention_heads == 0 &&
                       model.num_attention_heads % model.num_key_value_heads == 0;
  const int64_t head = divides ? model.resolved_head_dim() : 2;
  if (divides && head > 0 && head % 2 == 0) return;
  if (divides) {
    throw Error(ErrorKind::kConfig,
                str("/model: model.size with the parts that are given makes heads of width ", head,
                    "; allowed: an even number; give model.head_dim or num_attention_heads"));
  }
  throw Error(ErrorKind::kConfig,
              str("/model: model.size with the parts that are given makes hidden_size ",
                  model.hidden_size, ", num_attention_heads ", model.num_attention_heads,
                  ", num_key_value_heads ", model.num_key_value_heads,
                  ", which do not divide each other in this order; give these three"));
}

// Makes every choice in `config`. After a choice batch.micro_tokens is open unless it is given:
// resolve_micro_tokens() comes next.
void resolve_choices(Config& config, const PreparedData& data, int num_processes,
                     const Processes& processes) {
  const bool recipe = takes_recipe(config);
  if (!recipe && config.origins.by_person && !config.init_from) {
    log_note(
        "optimizer.lr is given, so that no setting is chosen; without it: the recipe of "
        "docs/recipe.md");
  }
  if (!recipe && !config.train.time && !config.model.size) return;
  const double targets = text_tokens(data);
  const RunFacts facts = {.vocab_size = *config.model.vocab_size,
                          .text_tokens = targets,
                          .num_processes = num_processes};
  const bool is_given = config.origins.given("batch.micro_tokens");
  const std::optional<int64_t> micro_tokens =
      is_given ? config.batch.micro_tokens : std::optional<int64_t>();
  if (config.train.time) {
    fit_time(config, data, facts, processes, micro_tokens);
  } else {
    choose_settings(config, facts);
  }
  if (!is_given) config.batch.micro_tokens.reset();
  end_choice(config);
  require_shape(config.model);
  // What is chosen beside given settings must be a config that later commands can read.
  if (config.origins.by_person && !config.init_from)
    parse_config(config_to_json(config).dump(), "the chosen settings", {}, ConfigAuthor::kRun);
  if (!recipe) return;
  log_note(str("chosen (lmtrain config show says why): ",
               format_count(count_parameters(config.model, *config.model.vocab_size)),
               " parameters, ", name_of(config.optimizer.type), " at ",
               printed("%.3g", config.optimizer.peak_lr()), ", batches of ", config.batch.tokens,
               " tokens, weight decay ", printed("%.3g", config.optimizer.weight_decay)));
}

}  // namespace

void resolve_after_data(Config& config, const PreparedData& data, int num_processes,
                        const Processes& processes) {
  resolve_vocab_size(config, Tokenizer::load(data.tokenizer_model));
  resolve_choices(config, data, num_processes, processes);
  resolve_micro_tokens(config, num_processes, processes);
  resolve_eval_tokens(config, data);
}

}  // namespace lmtrain
