#include "config/check.h"

#include <bit>
#include <initializer_list>

#include "base/text.h"
#include "config/recipe.h"
#include "config/units.h"

namespace lmtrain {
namespace {

class Rules {
 public:
  explicit Rules(SettingReader& reader) : reader_(reader) {}

  // Reports `what` unless `holds`; leaves the rule out when a key in it has a problem of its own.
  void require(bool holds, const std::vector<std::string>& keys, const std::string& what) {
    for (const std::string& key : keys) {
      if (reader_.bad(key)) return;
    }
    if (holds) return;
    std::string first = keys.front();
    for (const std::string& key : keys) {
      if (reader_.origins().given(key)) {
        first = key;
        break;
      }
    }
    reader_.problem(reader_.origins().origin(first), pointer_of(first), what);
  }

 private:
  SettingReader& reader_;
};

bool is_power_of_two(int64_t value) { return std::has_single_bit(static_cast<uint64_t>(value)); }

// Lengths and boundaries of schedule step, one by one. Boundaries in unlike units are compared when
// the run is planned.
void check_steps(const SequenceConfig& c, Rules& rules) {
  const std::string lengths = "sequence.schedule.lengths";
  for (const int64_t length : c.schedule.lengths) {
    rules.require(c.min_length <= length && length <= c.max_length, {lengths},
                  str(lengths, ": ", length, " is out of range; allowed: from min_length ",
                      c.min_length, " to max_length ", c.max_length));
  }
  const std::vector<TrainingDuration>& ends = c.schedule.boundaries;
  for (size_t i = 0; i < ends.size(); ++i) {
    const bool after =
        i == 0 || ends[i].unit != ends[i - 1].unit || ends[i - 1].value < ends[i].value;
    rules.require(ends[i].value > 0 && after, {"sequence.schedule.boundaries"},
                  str("sequence.schedule.boundaries: ", write_training_duration(ends[i]),
                      i == 0 ? "" : " after " + write_training_duration(ends[i - 1]),
                      "; allowed: above 0, increasing"));
  }
}

void check_sequence(const Config& config, Rules& rules) {
  const SequenceConfig& c = config.sequence;
  const std::string min_key = "sequence.min_length";
  const std::string max_key = "sequence.max_length";
  rules.require(takes_max_length(config) || c.min_length <= c.max_length, {min_key, max_key},
                str("sequence.min_length ", c.min_length, " is above sequence.max_length ",
                    c.max_length, "; allowed: min_length <= max_length"));
  if (c.has_buckets()) {
    const auto power = [&](const std::string& key, int64_t value) {
      rules.require(
          is_power_of_two(value), {key, "sequence.batching"},
          str(key, " ", value, " is not a power of two, as batching ", name_of(c.batching),
              " needs; nearest: ", std::bit_floor(static_cast<uint64_t>(value)), " and ",
              std::bit_ceil(static_cast<uint64_t>(value))));
    };
    power(min_key, c.min_length);
    power(max_key, c.max_length);
  }
  const LengthScheduleType type = c.schedule.type;
  const bool orders = type == LengthScheduleType::kNatural ||
                      type == LengthScheduleType::kGrowLinear ||
                      type == LengthScheduleType::kGrowP2;
  rules.require(c.has_buckets() || !orders, {"sequence.schedule.type", "sequence.batching"},
                "sequence.schedule.type " + name_of(type) +
                    " orders buckets, which sequence.batching " + name_of(c.batching) +
                    " has not; allowed: constant | linear | root | step, or batching bucket | pad");
  if (type == LengthScheduleType::kStep) {
    rules.require(!c.schedule.lengths.empty(), {"sequence.schedule.lengths"},
                  "sequence.schedule.type step needs sequence.schedule.lengths and boundaries");
    rules.require(
        c.schedule.lengths.size() == c.schedule.boundaries.size(),
        {"sequence.schedule.lengths", "sequence.schedule.boundaries"},
        str("sequence.schedule.lengths has ", c.schedule.lengths.size(),
            " values and sequence.schedule.boundaries ", c.schedule.boundaries.size(),
            "; allowed: as many of each (after the last boundary the length is max_length)"));
    check_steps(c, rules);
  }
}

void check_batch(const Config& config, Rules& rules) {
  const int64_t tokens = config.batch.tokens;
  const int64_t length = config.sequence.max_length;
  const bool is_length_chosen = takes_max_length(config);
  const bool is_batch_chosen = takes_recipe(config) && !config.origins.given("batch.tokens");
  const int64_t rows = is_length_chosen ? shortest_max_length(config) : length;
  // Another length that may be chosen is a power of two.
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  const auto fits = [&](int64_t count) {
    return count % rows == 0 || (is_length_chosen && count % power == 0);
  };
  const std::string of_rows =
      str(is_length_chosen ? "the shortest rows that are chosen, " : "sequence.max_length ", rows);
  rules.require(is_batch_chosen || fits(tokens), {"batch.tokens", "sequence.max_length"},
                str("batch.tokens ", tokens, " is not a multiple of ", of_rows,
                    "; nearest: ", (tokens / rows + 1) * rows));
  if (!config.batch.micro_tokens) return;
  const int64_t micro = *config.batch.micro_tokens;
  rules.require(fits(micro), {"batch.micro_tokens", "sequence.max_length"},
                str("batch.micro_tokens ", micro, " is not a multiple of ", of_rows,
                    "; nearest: ", (micro / rows + 1) * rows));
  rules.require(
      is_batch_chosen || tokens % micro == 0, {"batch.micro_tokens", "batch.tokens"},
      str("batch.micro_tokens ", micro, " does not divide batch.tokens ", tokens, " evenly"));
}

// The layers' matrices are multiplied 16 rows and columns at a time (ops/fp8.h).
void check_fp8(const Config& config, Rules& rules) {
  constexpr int64_t kMultiple = 16;
  if (config.precision != PrecisionSetting::kFp8) return;
  const ModelConfig& model = config.model;
  const auto multiple = [&](const std::string& key, int64_t width) {
    rules.require(width % kMultiple == 0, {key, "precision"},
                  str(key, " ", width, " is not a multiple of ", kMultiple,
                      ", as precision fp8 needs; nearest: ", (width / kMultiple + 1) * kMultiple));
  };
  multiple("model.hidden_size", model.hidden_size);
  multiple("model.intermediate_size", model.intermediate_size);
  const int64_t queries = model.num_attention_heads * model.resolved_head_dim();
  const int64_t keys = model.num_key_value_heads * model.resolved_head_dim();
  rules.require(queries % kMultiple == 0 && 2 * keys % kMultiple == 0,
                {"model.head_dim", "model.num_key_value_heads", "model.num_attention_heads",
                 "model.hidden_size", "precision"},
                str("heads of width ", model.resolved_head_dim(), " make queries ", queries,
                    " and keys and values ", 2 * keys,
                    " wide; allowed with precision fp8: multiples of ", kMultiple));
}

void check_optimizer(const Config& config, Rules& rules) {
  const OptimizerConfig& c = config.optimizer;
  const size_t count = optimizer_defaults(c.type).betas.size();
  rules.require(c.betas.size() == count, {"optimizer.betas", "optimizer.type"},
                str("optimizer.betas has ", c.betas.size(), " values; allowed: ", count,
                    " for optimizer.type ", name_of(c.type)));
  using Type = OptimizerType;
  rules.require(!c.cautious_decay || c.type != Type::kAdam,
                {"optimizer.cautious_decay", "optimizer.type"},
                str("optimizer.cautious_decay needs weight decay that is applied to the weights "
                    "themselves, which optimizer.type ",
                    name_of(c.type), " does not do; allowed: false"));
  // With model.size the width is known later, and end_choice() writes the groups.
  const bool waits = config.model.size && !takes_recipe(config) && takes_base_width(c.type);
  rules.require(
      !c.base_width || waits, {"optimizer.base_width", "optimizer.type"},
      takes_recipe(config)
          ? "optimizer.base_width is the width that optimizer.lr was found at, and optimizer.lr is "
            "not given; give it, or leave base_width out: the recipe follows the width"
      : takes_base_width(c.type)
          ? "optimizer.base_width is written out as groups when a run begins, and the run "
            "keeps these; change optimizer.groups"
          : str("optimizer.base_width is given, and how the rate of optimizer.type ",
                name_of(c.type), " follows the width is not known; allowed: null"));
  const LrScheduleConfig& lr = config.lr_schedule;
  const bool percents = lr.warmup.unit == TrainingDuration::Unit::kPercent &&
                        lr.decay.unit == TrainingDuration::Unit::kPercent;
  rules.require(
      lr.type != LrScheduleType::kWsd || !percents || lr.warmup.value + lr.decay.value <= 100,
      {"lr_schedule.decay", "lr_schedule.warmup", "lr_schedule.type"},
      str("lr_schedule.warmup ", lr.warmup.value, "% and decay ", lr.decay.value,
          "% are together more than the run"));
}

void check_run_length(const TrainConfig& c, bool by_person, const SettingReader& reader,
                      Rules& rules) {
  std::vector<std::string> given;
  for (const char* key : {"train.steps", "train.tokens", "train.epochs", "train.time"}) {
    if (reader.origins().given(key)) given.emplace_back(key);
  }
  std::vector<std::string> settings;
  settings.reserve(given.size());
  for (const std::string& key : given) {
    settings.push_back(key + " (" + reader.origins().origin(key) + ")");
  }
  rules.require(
      given.size() <= 1, given.empty() ? std::vector<std::string>{"train"} : given,
      join(settings, " and ") + " are both given; allowed: one of steps, tokens, epochs, time");
  rules.require(
      !given.empty() || c.tokens.has_value(), {"train"},
      "none of train.steps, train.tokens, train.epochs, train.time has a value; give one");
  rules.require(!c.time || by_person, {"train.time"},
                "train.time is measured when a run begins, and this run has begun; give "
                "train.tokens");
  const std::vector<std::string> history = {"train.planned_tokens", "train.replanned_at"};
  const bool is_whole = c.planned_tokens.size() == c.replanned_at.size();
  rules.require(is_whole, history,
                str("train.planned_tokens has ", c.planned_tokens.size(),
                    " values and train.replanned_at ", c.replanned_at.size(),
                    "; allowed: as many of each, a length and the batch where it ended"));
  rules.require(c.planned_tokens.empty() || reader.origins().given("train.tokens"), history,
                "train.planned_tokens lists earlier values of train.tokens, which is not given");
  rules.require(std::ranges::is_sorted(c.replanned_at), history,
                "train.replanned_at does not ascend; it lists batches in the order of the run");
}

void check_data(const Config& config, Rules& rules, const SettingReader& reader) {
  rules.require(reader.origins().given("data.train"), {"data.train"},
                "data.train is missing: the files, folders or globs to train on, for example "
                "\"data\": {\"train\": [\"corpus/**/*.txt\"]}");
  const bool held_out = config.data.eval.has_value() || config.data.eval_fraction > 0;
  rules.require(config.restart.tokens.value > 0 ||
                    (config.restart.seeds == 1 && !config.restart.on_divergence),
                {"restart.tokens"},
                "restart.tokens 0 is no trial; allowed: above 0, such as \"2%\"");
  rules.require(config.restart.seeds == 1 || held_out,
                {"restart.seeds", "data.eval_fraction", "data.eval"},
                str("restart.seeds ", config.restart.seeds,
                    " ranks trials by held-out loss, but data.eval is null and data.eval_fraction "
                    "is 0; give one of them"));
  rules.require(!config.eval.early_stop || held_out,
                {"eval.early_stop", "data.eval_fraction", "data.eval"},
                "eval.early_stop ends a run by its held-out loss, but data.eval is null and "
                "data.eval_fraction is 0; give one of them, or set eval.early_stop to null");
  rules.require(
      !config.eval.tasks || held_out, {"eval.tasks", "data.eval_fraction", "data.eval"},
      "eval.tasks belongs to evaluations, but data.eval is null and data.eval_fraction is "
      "0; give one of them, or set eval.tasks to null");
  const TokenizerTrainConfig& train = config.tokenizer.train;
  if (config.tokenizer.model || reader.bad("tokenizer.model")) return;
  constexpr int64_t kBytePieces = 256 + 3;     // and <unk>, <s>, </s>
  constexpr int64_t kByteBpeTokens = 256 + 2;  // and BOS, EOS
  const bool is_byte_bpe = train.type == TokenizerType::kByteBpe;
  if (!train.vocab_size) {
    const int64_t least = is_byte_bpe ? kByteBpeTokens : train.byte_fallback ? kBytePieces + 1 : 1;
    rules.require(
        config.model.vocab_size.value_or(least) >= least, {"model.vocab_size"},
        str("model.vocab_size ", config.model.vocab_size.value_or(0), " is below the ", least,
            " pieces that a trained tokenizer has at least; raise it, or give "
            "tokenizer.model"));
    return;
  }
  const int64_t vocab_size = *train.vocab_size;
  rules.require(!is_byte_bpe || vocab_size >= kByteBpeTokens,
                {"tokenizer.train.vocab_size", "tokenizer.train.type"},
                str("tokenizer.train.vocab_size ", vocab_size,
                    " is less than the 256 bytes and 2 special tokens of byte_bpe; allowed: at "
                    "least ",
                    kByteBpeTokens));
  rules.require(is_byte_bpe || !train.byte_fallback || vocab_size > kBytePieces,
                {"tokenizer.train.vocab_size", "tokenizer.train.byte_fallback"},
                str("tokenizer.train.vocab_size ", vocab_size,
                    " leaves no room beside the 256 bytes of byte_fallback and 3 control pieces; "
                    "allowed: at least ",
                    kBytePieces + 1));
  rules.require(config.model.vocab_size.value_or(vocab_size) >= vocab_size,
                {"model.vocab_size", "tokenizer.train.vocab_size"},
                str("model.vocab_size ", config.model.vocab_size.value_or(0),
                    " is below tokenizer.train.vocab_size ", vocab_size,
                    "; lower that, or give tokenizer.model"));
}

// lmtrain computes attention over whole rows, so a window must cover a whole row.
void check_window(const Config& config, Rules& rules) {
  const ModelConfig& model = config.model;
  const bool has_window = model.model_type == ModelArchitecture::kMistral && model.sliding_window;
  rules.require(!has_window || *model.sliding_window >= config.sequence.max_length,
                {"model.sliding_window", "sequence.max_length", "model.model_type"},
                str("model.sliding_window ", model.sliding_window.value_or(0),
                    " is below sequence.max_length ", config.sequence.max_length,
                    ", and lmtrain computes attention over whole rows alone; lower "
                    "sequence.max_length to it",
                    config.init_from ? "" : ", or set model.sliding_window to null"));
}

void check_model_size(const Config& config, Rules& rules) {
  const std::optional<std::string>& size = config.model.size;
  if (!size) return;
  const std::string key = "model.size";
  const std::optional<int64_t> parameters = parse_tokens(*size);
  const std::vector<std::string> meant = similar_tokens(*size);
  rules.require(*size == "auto" || (parameters && *parameters > 0), {key},
                str("model.size \"", printable(*size),
                    "\" is no number of parameters; allowed: \"auto\", or a number as \"3M\", "
                    "\"124M\"",
                    meant.empty() ? "" : str("; did you mean \"", meant.front(), "\"?")));
  rules.require(!config.init_from, {key, "init_from"},
                "model.size is given, and init_from has a model of its own size; leave it out");
  rules.require(*size != "auto" || config.train.time || config.train.tokens, {key, "train"},
                "model.size \"auto\" follows the length of the run; give train.time or "
                "train.tokens");
}

// Returns true where a size completes the shape when the run begins (training/choices.h), which
// checks it then.
bool completes_shape(const Config& config) {
  if (!config.origins.by_person || !config.model.size || config.init_from) return false;
  const auto given = [&](const char* key) { return config.origins.given(key); };
  return !given("model.hidden_size") || !given("model.num_attention_heads") ||
         !given("model.num_key_value_heads");
}

// training/preflight.h checks the number of processes, which is not known here.
void check_parallel(const ParallelConfig& c, Rules& rules) {
  rules.require(is_power_of_two(c.parts), {"parallel.parts"},
                str("parallel.parts ", c.parts, " is not a power of two; nearest: ",
                    std::bit_floor(static_cast<uint64_t>(c.parts)), " and ",
                    std::bit_ceil(static_cast<uint64_t>(c.parts))));
}

}  // namespace

void check_model(const ModelConfig& model, const std::string& prefix, SettingReader& reader) {
  Rules rules(reader);
  const std::string heads = prefix + "num_attention_heads";
  // transformers 5 asks for it even where head_dim is given, and checkpoints must open there.
  rules.require(model.hidden_size % model.num_attention_heads == 0, {prefix + "hidden_size", heads},
                str(prefix, "hidden_size ", model.hidden_size, " is not a multiple of ", heads, " ",
                    model.num_attention_heads));
  rules.require(model.num_attention_heads % model.num_key_value_heads == 0,
                {prefix + "num_key_value_heads", heads},
                str(heads, " ", model.num_attention_heads, " is not a multiple of ", prefix,
                    "num_key_value_heads ", model.num_key_value_heads));
  rules.require(model.resolved_head_dim() % 2 == 0 && model.resolved_head_dim() > 0,
                {prefix + "head_dim", prefix + "hidden_size", heads},
                str("the width of a head is ", model.resolved_head_dim(),
                    "; allowed: an even number (rotary embedding turns pairs)"));
  const bool is_yarn = model.rope_scaling && model.rope_scaling->rope_type == RopeType::kYarn;
  rules.require(
      !is_yarn || model.rope_theta > 1, {prefix + "rope_theta", prefix + "rope_scaling"},
      str(prefix, "rope_theta ", model.rope_theta,
          " gives no wavelengths that rope_type yarn could tell apart; allowed: above 1"));
}

void check_architectures(const JsonNode* model_node, const ModelConfig& model,
                         const std::string& prefix, SettingReader& reader) {
  const JsonNode* node = model_node == nullptr ? nullptr : model_node->find("architectures");
  const std::string key = prefix + "architectures";
  if (node == nullptr || !node->is(JsonNode::Type::kArray) || reader.bad(key)) return;
  const std::string type = prefix + "model_type";
  if (reader.bad(type) || node->items.front().text == hf_class(model.model_type)) return;
  reader.problem(node->where, pointer_of(key),
                 str(quote_json(*node), " is not the class of ", type, " ",
                     name_of(model.model_type), ", which is ", hf_class(model.model_type)));
}

void check_attention_bias(const JsonNode* model_node, const ModelConfig& model,
                          const std::string& prefix, SettingReader& reader) {
  const JsonNode* node = model_node == nullptr ? nullptr : model_node->find("attention_bias");
  const std::string key = prefix + "attention_bias";
  if (node == nullptr || !node->is(JsonNode::Type::kBool) || reader.bad(key)) return;
  const bool is_ignored = prefix.empty() && model.has_qkv_bias();
  if (reader.bad(prefix + "model_type") || is_ignored || node->boolean == model.has_qkv_bias())
    return;
  const char* what = model.has_qkv_bias()
                         ? " computes: its q_proj, k_proj and v_proj have biases; allowed: true"
                         : " computes: its projections have no bias; allowed: false (lmtrain has "
                           "biases of q_proj, k_proj and v_proj, in a qwen2)";
  reader.problem(node->where, pointer_of(key),
                 str(quote_json(*node), " is not what ", prefix, "model_type ",
                     name_of(model.model_type), what));
}

void check_config(const Config& config, SettingReader& reader) {
  Rules rules(reader);
  check_data(config, rules, reader);
  check_sequence(config, rules);
  if (!completes_shape(config)) check_model(config.model, "model.", reader);
  check_model_size(config, rules);
  check_window(config, rules);
  check_batch(config, rules);
  check_fp8(config, rules);
  check_optimizer(config, rules);
  check_run_length(config.train, config.origins.by_person, reader, rules);
  check_parallel(config.parallel, rules);
}

}  // namespace lmtrain
