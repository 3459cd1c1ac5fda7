// What a person sees for each kind of broken configuration: the location, the JSON pointer, what is
// allowed, the cure.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text.h"
#include "config/config_text.h"

namespace lmtrain {
namespace {

struct BrokenConfig {
  const char* name;
  const char* members;  // beside "data", on line 2
  const char* line;     // of the error
  const char* pointer;
  const char* hint;
};

class Broken : public testing::TestWithParam<BrokenConfig> {};

TEST_P(Broken, NamesLocationPointerAndCure) {
  const BrokenConfig& param = GetParam();
  const std::vector<std::string> problems = problems_of(config_text(param.members));
  ASSERT_EQ(problems.size(), 1U) << join(problems, "\n");
  EXPECT_TRUE(
      problems[0].starts_with(std::string("run.json:") + param.line + ": " + param.pointer + ": "))
      << problems[0];
  EXPECT_NE(problems[0].find(param.hint), std::string::npos) << problems[0];
}

const BrokenConfig kBroken[] = {
    {"unknown_section", R"("sequnce": {})", "2", "/sequnce", "did you mean \"sequence\"?"},
    {"early_stop_is_no_number", R"("eval": {"early_stop": 5})", "2", "/eval/early_stop",
     "\"patience\""},
    {"early_stop_without_patience", R"("eval": {"early_stop": {"patience": 0}})", "2",
     "/eval/early_stop/patience", "an integer from 1 to 1000000"},
    {"unknown_key_of_early_stop", R"("eval": {"early_stop": {"patiense": 5}})", "2",
     "/eval/early_stop/patiense", "did you mean \"patience\"?"},
    {"samples_without_prompts", R"("log": {"samples": {"max_tokens": 5}})", "2", "/log/samples",
     "\"prompts\" is missing"},
    {"samples_with_no_prompt", R"("log": {"samples": {"prompts": []}})", "2",
     "/log/samples/prompts", "is empty; allowed: a list of texts"},
    {"a_prompt_that_is_no_text", R"("log": {"samples": {"prompts": ["a", 5]}})", "2",
     "/log/samples/prompts/1", "5 is not text"},
    {"keep_best_below_zero", R"("checkpoint": {"keep_best": -1})", "2", "/checkpoint/keep_best",
     "an integer from 0 to 1000000"},
    {"unknown_key", R"("optimizer": {"lrr": 1})", "2", "/optimizer/lrr", "\"optimizer.lr\"?"},
    {"key_of_another_section", R"("lr": 1)", "2", "/lr", "did you mean \"optimizer.lr\"?"},
    {"key_of_hf_trainer", R"("learning_rate": 1)", "2", "/learning_rate", "\"optimizer.lr\"?"},
    {"key_in_capitals", R"("Batch": {})", "2", "/Batch", "did you mean \"batch\"?"},
    {"key_with_dash", R"("run-dir": "x")", "2", "/run-dir", "did you mean \"run_dir\"?"},
    {"key_with_dots", R"("optimizer.lr": 1)", "2", "/optimizer.lr", "\"optimizer.lr\"?"},
    {"key_like_nothing", R"("clip": {"zzzzzzzz": 1})", "2", "/clip/zzzzzzzz", "known here: type"},
    {"key_like_nothing_of_many", R"("model": {"qqqq_layers": 1})", "2", "/model/qqqq_layers",
     "known here: num_hidden_layers, "},
    {"key_with_slash", R"("a/b~zzzzzzz": 1)", "2", "/a~1b~0zzzzzzz", "unknown key"},
    {"key_twice", "\"seed\": 1,\n\"seed\": 2", "3", "/seed",
     "twice in one object, first at run.json:2"},
    {"text_for_number", R"("optimizer": {"lr": "fast"})", "2", "/optimizer/lr",
     "\"fast\" is not a number; allowed: a number above 0"},
    {"value_on_a_later_line", "\"optimizer\": {\"lr\":\n\n0}", "4", "/optimizer/lr", "0 is out of"},
    {"number_for_text", R"("name": 5)", "2", "/name", "5 is not text"},
    {"number_for_choice", R"("precision": 16)", "2", "/precision", "auto | fp32 | bf16"},
    {"choice_of_torch", R"("precision": "float16")", "2", "/precision", "mean \"fp16\"?"},
    {"choice_of_torch_bf16", R"("precision": "BFloat16")", "2", "/precision", "mean \"bf16\"?"},
    {"choice_in_capitals", R"("precision": "FP32")", "2", "/precision", "mean \"fp32\"?"},
    {"device_gpu", R"("device": "gpu")", "2", "/device", "mean \"cuda\"?"},
    {"minutes", R"("train": {"max_time": "10m"})", "2", "/train/max_time", "mean \"10min\"?"},
    {"tokens_in_small", R"("train": {"tokens": "10m"})", "2", "/train/tokens", "mean \"10M\"?"},
    {"minutes_or_tokens", R"("eval": {"every": "10m"})", "2", "/eval/every",
     "mean \"10M\" or \"10min\"?"},
    {"count_with_unit", R"("train": {"steps": "10K"})", "2", "/train/steps", "mean 10000?"},
    {"text_for_bool", R"("deterministic": "yes")", "2", "/deterministic", "true or false"},
    {"number_for_bool", R"("tokenizer": {"add_bos": 1})", "2", "/tokenizer/add_bos",
     "true or false"},
    {"null_for_number", R"("seed": null)", "2", "/seed", "null is not an integer"},
    {"null_for_text", R"("device": null)", "2", "/device", "null is not text"},
    {"null_for_section", R"("model": null)", "2", "/model", "null is not an object"},
    {"list_for_section", R"("model": [1])", "2", "/model", "[1] is not an object"},
    {"fraction_for_integer", R"("seed": 1.5)", "2", "/seed", "1.5 is not an integer"},
    {"integer_too_large", R"("seed": 9223372036854775808)", "2", "/seed",
     "is too large: at most 9223372036854775807"},
    {"overflow", R"("optimizer": {"lr": 1e999})", "2", "/optimizer/lr", "does not fit"},
    {"huge_integer_overflow", R"("seed": 1e999)", "2", "/seed", "is too large"},
    {"negative", R"("seed": -1)", "2", "/seed", "of at least 0"},
    {"too_large", R"("threads": 5000)", "2", "/threads", "from 1 to 4096, or \"auto\""},
    {"unknown_choice", R"("lr_schedule": {"type": "cosin"})", "2", "/lr_schedule/type",
     "did you mean \"cosine\"?"},
    {"unknown_device", R"("device": "gpu")", "2", "/device", "cuda:N"},
    {"device_index", R"("device": "cuda:x")", "2", "/device", "cuda:N"},
    {"device_index_too_large", R"("device": "cuda:256")", "2", "/device", "cuda:N"},
    {"device_index_with_zero", R"("device": "cuda:01")", "2", "/device", "cuda:N"},
    {"wrong_unit", R"("train": {"tokens": "10X"})", "2", "/train/tokens", "\"10M\" \"2B\""},
    {"bytes_for_tokens", R"("train": {"tokens": "10MB"})", "2", "/train/tokens", "tokens"},
    {"tokens_for_bytes", R"("tokenizer": {"train": {"sample": "10M"}})", "2",
     "/tokenizer/train/sample", "\"100MB\""},
    {"no_unit", R"("eval": {"every": "500"})", "2", "/eval/every", "\"500 steps\""},
    {"percent_above_100", R"("eval": {"every": "101%"})", "2", "/eval/every",
     "\"101%\" has a number that is too large or not whole"},
    {"huge_every", R"("log": {"every": 9007199254740993})", "2", "/log/every",
     "is too large: at most 9007199254740992"},
    {"huge_tokens", R"("train": {"tokens": 9007199254740994})", "2", "/train/tokens",
     "is too large: at most 9007199254740992"},
    {"negative_every", R"("log": {"every": -1})", "2", "/log/every", "whole number of at least 0"},
    {"time_for_warmup", R"("lr_schedule": {"warmup": "90s"})", "2", "/lr_schedule/warmup",
     "unit that this key does not take"},
    {"steps_for_trial", R"("restart": {"tokens": "5 steps"})", "2", "/restart/tokens", "unit"},
    {"wrong_time", R"("train": {"max_time": "2 days"})", "2", "/train/max_time", "\"30min\""},
    {"units_where_none_are", R"("seed": "10K")", "2", "/seed", "is not an integer"},
    {"name_is_path", R"("name": "a/b")", "2", "/name", "no \"/\""},
    {"name_empty", R"("name": "")", "2", "/name", "cannot name a folder"},
    {"path_empty", R"("run_dir": "")", "2", "/run_dir", "empty path"},
    {"variable_unset", R"("run_dir": "${LMTRAIN_NOT_SET}/x")", "2", "/run_dir", "LMTRAIN_NOT_SET"},
    {"variable_open", R"("run_dir": "${HOME")", "2", "/run_dir", "${ without }"},
    {"beta_of_one", R"("optimizer": {"betas": [0.9, 1.0]})", "2", "/optimizer/betas/1",
     "from 0 to below 1"},
    {"betas_not_a_list", R"("optimizer": {"betas": 0.9})", "2", "/optimizer/betas", "a list of"},
    {"betas_too_many", R"("optimizer": {"betas": [0.9, 0.95, 0.99]})", "2", "/optimizer/betas",
     "allowed: 2 for optimizer.type adamw"},
    {"betas_of_ademamix", R"("optimizer": {"type": "ademamix", "betas": [0.9, 0.95]})", "2",
     "/optimizer/betas", "allowed: 3"},
    {"betas_of_sgd", R"("optimizer": {"type": "sgd", "betas": [0.9, 0.95]})", "2",
     "/optimizer/betas", "allowed: 0 for optimizer.type sgd"},
    {"betas_of_rmsprop", R"("optimizer": {"type": "rmsprop", "betas": [0.9, 0.95]})", "2",
     "/optimizer/betas", "allowed: 1"},
    {"cautious_adam", R"("optimizer": {"type": "adam", "cautious_decay": true})", "2",
     "/optimizer/cautious_decay", "optimizer.type adam does not do"},
    {"gamma", R"("optimizer": {"type": "mars", "gamma": -1})", "2", "/optimizer/gamma",
     "at least 0"},
    {"other_variant_is_checked", R"("optimizer": {"momentum": 2})", "2", "/optimizer/momentum",
     "below 1"},
    {"ns_coefficients", R"("optimizer": {"type": "muon", "ns_coefficients": "cubic"})", "2",
     "/optimizer/ns_coefficients", "quintic | polar_express"},
    {"normuon_beta2", R"("optimizer": {"type": "muon", "normuon": true, "normuon_beta2": 1})", "2",
     "/optimizer/normuon_beta2", "below 1"},
    {"normuon", R"("optimizer": {"type": "muon", "normuon": 0.95})", "2", "/optimizer/normuon",
     "true or false"},
    {"cautious_decay", R"("optimizer": {"cautious_decay": "yes"})", "2",
     "/optimizer/cautious_decay", "true or false"},
    {"initializer", R"("model": {"initializer": "zeros"})", "2", "/model/initializer",
     "normal | zero_outputs"},
    {"group_without_pattern", R"("optimizer": {"groups": [{"lr": 1}]})", "2", "/optimizer/groups/0",
     "\"pattern\" is missing"},
    {"group_unknown_key", R"("optimizer": {"groups": [{"pattern": "*", "weigth_decay": 1}]})", "2",
     "/optimizer/groups/0/weigth_decay", "\"weight_decay\"?"},
    {"two_lengths_of_run", R"("train": {"steps": 5, "epochs": 1})", "2", "/train/steps",
     "train.steps (run.json:2) and train.epochs (run.json:2) are both given"},
    {"no_length_of_run", R"("train": {"tokens": null})", "2", "/train", "none of train.steps"},
    {"min_above_max", R"("sequence": {"min_length": 2048, "max_length": 1024})", "2",
     "/sequence/min_length", "above sequence.max_length 1024"},
    {"max_below_min", R"("sequence": {"max_length": 32})", "2", "/sequence/max_length",
     "min_length 64 is above"},
    {"no_power_of_two", R"("sequence": {"min_length": 100})", "2", "/sequence/min_length",
     "nearest: 64 and 128"},
    {"natural_with_concat",
     R"("sequence": {"batching": "concat", "schedule": {"type": "natural"}})", "2",
     "/sequence/schedule/type", "sequence.batching concat"},
    {"step_without_lengths", R"("sequence": {"schedule": {"type": "step"}})", "2",
     "/sequence/schedule/lengths", "needs sequence.schedule.lengths"},
    {"hidden_size_with_fp8",
     R"("precision": "fp8", "model": {"hidden_size": 200, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16})",
     "2", "/model/hidden_size",
     "200 is not a multiple of 16, as precision fp8 needs; nearest: 208"},
    {"intermediate_size_with_fp8", R"("precision": "fp8", "model": {"intermediate_size": 1000})",
     "2", "/model/intermediate_size", "nearest: 1008"},
    {"heads_with_fp8",
     R"("precision": "fp8", "model": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 20})",
     "2", "/model/head_dim", "queries 80 and keys and values 40 wide"},
    {"grow_with_pack", R"("sequence": {"batching": "pack", "schedule": {"type": "grow_p2"}})", "2",
     "/sequence/schedule/type", "sequence.batching pack"},
    {"odd_max_of_pad",
     R"("sequence": {"batching": "pad", "max_length": 96}, "batch": {"tokens": 960})", "2",
     "/sequence/max_length", "96 is not a power of two"},
    {"step_below_min",
     R"("sequence": {"schedule": {"type": "step", "lengths": [32], "boundaries": ["5%"]}})", "2",
     "/sequence/schedule/lengths", "32 is out of range; allowed: from min_length 64"},
    {"step_above_max",
     R"("sequence": {"schedule": {"type": "step", "lengths": [2048], "boundaries": ["5%"]}})", "2",
     "/sequence/schedule/lengths", "2048 is out of range"},
    {"step_boundary_0",
     R"("sequence": {"schedule": {"type": "step", "lengths": [64], "boundaries": ["0%"]}})", "2",
     "/sequence/schedule/boundaries", "0%; allowed: above 0, increasing"},
    {"step_boundaries_fall",
     R"("sequence": {"schedule": {"type": "step", "lengths": [64, 128], "boundaries": [9, 9]}})",
     "2", "/sequence/schedule/boundaries", "9 steps after 9 steps"},
    {"odd_parts", R"("parallel": {"parts": 6})", "2", "/parallel/parts",
     "parallel.parts 6 is not a power of two; nearest: 4 and 8"},
    {"timeout_0", R"("parallel": {"timeout": 0})", "2", "/parallel/timeout", "seconds from 1"},
    {"batch_no_multiple", R"("batch": {"tokens": 65537}, "sequence": {"max_length": 1024})", "2",
     "/batch/tokens", "not a multiple of sequence.max_length 1024; nearest: 66560"},
    {"batch_no_chosen_rows", R"("batch": {"tokens": 65537})", "2", "/batch/tokens",
     "not a multiple of the shortest rows that are chosen, 128; nearest: 65664"},
    {"micro_no_multiple",
     R"("batch": {"tokens": 3072, "micro_tokens": 1536}, "sequence": {"max_length": 1024})", "2",
     "/batch/micro_tokens", "not a multiple of sequence.max_length 1024"},
    {"micro_no_chosen_rows", R"("batch": {"micro_tokens": 192})", "2", "/batch/micro_tokens",
     "not a multiple of the shortest rows that are chosen, 128; nearest: 256"},
    {"batch_no_given_least_rows",
     R"("sequence": {"batching": "pack", "min_length": 200}, "batch": {"tokens": 65700})", "2",
     "/batch/tokens", "the shortest rows that are chosen, 200; nearest: 65800"},
    {"restart_without_trials", R"("restart": {"seeds": 2, "tokens": 0})", "2", "/restart/tokens",
     "above 0"},
    {"micro_no_divisor", R"("batch": {"tokens": 3072, "micro_tokens": 2048})", "2",
     "/batch/micro_tokens", "does not divide batch.tokens 3072"},
    {"heads_and_kv_heads", R"("model": {"num_key_value_heads": 3})", "2",
     "/model/num_key_value_heads", "num_attention_heads 4 is not a multiple"},
    {"hidden_and_heads", R"("model": {"hidden_size": 250})", "2", "/model/hidden_size",
     "not a multiple of model.num_attention_heads 4"},
    {"odd_head", R"("model": {"head_dim": 63})", "2", "/model/head_dim", "an even number"},
    {"vocabulary_too_small", R"("model": {"vocab_size": 100})", "2", "/model/vocab_size",
     "below the 260 pieces"},
    {"vocabulary_below_the_tokenizer",
     R"("model": {"vocab_size": 300}, "tokenizer": {"train": {"vocab_size": 512}})", "2",
     "/model/vocab_size", "below tokenizer.train.vocab_size 512"},
    {"no_room_for_bytes", R"("tokenizer": {"train": {"vocab_size": 256}})", "2",
     "/tokenizer/train/vocab_size", "at least 260"},
    {"no_room_for_byte_tokens",
     R"("tokenizer": {"train": {"type": "byte_bpe", "vocab_size": 257}})", "2",
     "/tokenizer/train/vocab_size", "2 special tokens of byte_bpe; allowed: at least 258"},
    {"wsd_too_long", R"("lr_schedule": {"type": "wsd", "warmup": "60%", "decay": "50%"})", "2",
     "/lr_schedule/decay", "more than the run"},
    {"activation", R"("model": {"hidden_act": "gelu"})", "2", "/model/hidden_act",
     "\"gelu\" is not what lmtrain computes; allowed: \"silu\""},
    {"bias", R"("model": {"attention_bias": true})", "2", "/model/attention_bias",
     "allowed: false"},
    {"dropout", R"("model": {"attention_dropout": 0.1})", "2", "/model/attention_dropout", "0"},
    {"no_bias", R"("model": {"model_type": "qwen2", "attention_bias": false})", "2",
     "/model/attention_bias", "have biases; allowed: true"},
    {"bias_of_a_mistral", R"("model": {"model_type": "mistral", "attention_bias": true})", "2",
     "/model/attention_bias", "allowed: false"},
    {"architecture", R"("model": {"model_type": "gpt2"})", "2", "/model/model_type",
     "llama | qwen3 | qwen2 | mistral"},
    {"architectures", R"("model": {"architectures": ["Qwen3ForCausalLM"]})", "2",
     "/model/architectures", "which is LlamaForCausalLM"},
    {"sliding_window", R"("model": {"model_type": "qwen3", "use_sliding_window": true})", "2",
     "/model/use_sliding_window", "allowed: false"},
    {"window_of_a_qwen2", R"("model": {"model_type": "qwen2", "use_sliding_window": true})", "2",
     "/model/use_sliding_window", "allowed: false"},
    {"window_of_a_mistral", R"("model": {"model_type": "mistral", "sliding_window": 512})", "2",
     "/model/sliding_window", "512 is below sequence.max_length 1024"},
    {"layer_types", R"("model": {"layer_types": ["full_attention", "x"]})", "2",
     "/model/layer_types", "or a list of these"},
    {"rope_unknown", R"("model": {"rope_scaling": {"type": "dynamic", "factor": 2}})", "2",
     "/model/rope_scaling/rope_type",
     "\"dynamic\" is not known; allowed: default | linear | llama3 | yarn"},
    {"rope_without_factor", R"("model": {"rope_scaling": {"type": "linear"}})", "2",
     "/model/rope_scaling", "no \"factor\""},
    {"yarn_without_length", R"("model": {"rope_scaling": {"type": "yarn", "factor": 2}})", "2",
     "/model/rope_scaling", "no \"original_max_position_embeddings\""},
    {"yarn_with_a_base_of_1",
     R"("model": {"rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 2,
     "original_max_position_embeddings": 9}})",
     "2", "/model/rope_theta", "allowed: above 1"},
    {"yarn_beta",
     R"("model": {"rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 0,
     "original_max_position_embeddings": 9}})",
     "2", "/model/rope_scaling/beta_fast", "above 0"},
    {"rope_without_type", R"("model": {"rope_scaling": {"factor": 2}})", "2", "/model/rope_scaling",
     "no \"rope_type\""},
    {"rope_types_differ",
     R"("model": {"rope_scaling": {"type": "llama3", "rope_type": "default"}})", "2",
     "/model/rope_scaling", "another \"rope_type\""},
    {"rope_key", R"("model": {"rope_scaling": {"rope_type": "llama3", "factr": 2}})", "2",
     "/model/rope_scaling/factr", "\"factor\"?"},
    {"rope_factors", R"("model": {"rope_scaling": {"rope_type": "llama3", "low_freq_factor": 4}})",
     "2", "/model/rope_scaling", "not below high_freq_factor"},
    {"rope_twice", R"("model": {"rope_theta": 1, "rope_parameters": {"rope_theta": 2}})", "2",
     "/model/rope_parameters/rope_theta", "contradicts rope_theta at run.json:2"},
    {"rope_parameters_kind", R"("model": {"rope_parameters": 3})", "2", "/model/rope_parameters",
     "is not an object"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, Broken, testing::ValuesIn(kBroken),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(BrokenData, NamesTheSource) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({})", "run.json:1: /data/train: data.train is missing"},
      {R"({"data": {}})", "run.json:1: /data/train: data.train is missing"},
      {R"({"data": {"train": []}})", "run.json:1: /data/train: [] names no data"},
      {R"({"data": {"train": 5}})", "run.json:1: /data/train: 5 is not a list of paths"},
      {R"({"data": {"train": null}})", "run.json:1: /data/train: null is not a list"},
      {R"({"data": {"train": [5]}})", "run.json:1: /data/train/0: 5 is neither a path nor"},
      {R"({"data": {"train": [{"weight": 1}]}})", "run.json:1: /data/train/0: \"path\" is missing"},
      {R"({"data": {"train": ["a", {"path": "b", "weight": 0}]}})",
       "run.json:1: /data/train/1/weight: 0 is out of range; allowed: a number from 1e-06 to "
       "1000000"},
      {R"({"data": {"train": [{"path": "b", "weight": -1}]}})",
       "run.json:1: /data/train/0/weight: -1 is out of range"},
      {R"({"data": {"train": [{"path": "b", "wieght": 1}]}})",
       "run.json:1: /data/train/0/wieght: unknown key; did you mean \"weight\"?"},
  };
  for (const auto& [text, expected] : kCases) {
    const std::vector<std::string> problems = problems_of(text);
    ASSERT_FALSE(problems.empty()) << text;
    EXPECT_TRUE(problems[0].starts_with(expected)) << problems[0];
  }
}

TEST(BrokenConfigs, AllErrorsComeAtOnceEachWithItsLine) {
  const std::vector<std::string> problems = problems_of(R"({
  // a comment
  "sequnce": {},
  "optimizer": {
    "lr": "fast", /* and
    another */ "eps": 0
  },
  "batch": {"tokens": 1000}
})",
                                                        {"seed=x"});
  const std::vector<std::string> starts = {
      "run.json:3: /sequnce", "run.json:5: /optimizer/lr", "run.json:6: /optimizer/eps",
      "--set seed=x: /seed",  "run.json:1: /data/train",   "run.json:8: /batch/tokens"};
  ASSERT_EQ(problems.size(), starts.size()) << join(problems, "\n");
  for (size_t i = 0; i < starts.size(); ++i) {
    EXPECT_TRUE(problems[i].starts_with(starts[i])) << problems[i];
  }
}

TEST(BrokenConfigs, TrialsNeedHeldOutText) {
  const std::string text = R"({"data": {"train": ["x"], "eval_fraction": 0},
 "restart": {"seeds": 2}})";
  const std::vector<std::string> problems = problems_of(text);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(problems[0].starts_with("run.json:2: /restart/seeds: restart.seeds 2 ranks trials"))
      << problems[0];
  EXPECT_TRUE(problems_of(text, {"data.eval=[\"held-out\"]"}).empty());
}

TEST(BrokenConfigs, NamedSetsOfEvaluationText) {
  const auto problem_of = [](const std::string& eval) {
    const std::vector<std::string> problems =
        problems_of("{\"data\": {\"train\": [\"x\"],\n\"eval\": " + eval + "}}");
    EXPECT_EQ(problems.size(), 1U) << join(problems, "\n");
    return problems.empty() ? "" : problems[0];
  };
  for (const char* name : {"", "a b", "a/b", "\u00e9", "length_256"}) {
    const std::string problem = problem_of(str(R"({"good": "a", ")", name, "\":\n\"b\"}"));
    EXPECT_TRUE(problem.starts_with("run.json:2: /data/eval/")) << problem;
    EXPECT_NE(problem.find("cannot name a set"), std::string::npos) << problem;
  }
  EXPECT_TRUE(problem_of(R"({"a/b": "c"})").starts_with("run.json:2: /data/eval/a~1b: "));
  EXPECT_TRUE(problem_of("{\"a\": \"b\",\n\"a\": \"c\"}")
                  .starts_with("run.json:3: /data/eval/a: key stands twice"));
  EXPECT_TRUE(problem_of("{}").starts_with("run.json:2: /data/eval: {} names no data"));
  EXPECT_TRUE(problem_of(R"({"a": []})").starts_with("run.json:2: /data/eval/a: [] names no data"));
  EXPECT_TRUE(problem_of(R"({"a": ["b", 5]})").starts_with("run.json:2: /data/eval/a/1: 5 is"));
  // Sets have no sets, and data.train has none.
  for (const char* data :
       {R"({"train": "x", "eval": {"a": {"b": "c"}}})", R"({"train": {"b": "c"}})"}) {
    const std::vector<std::string> problems = problems_of(str(R"({"data": )", data, "}"));
    ASSERT_EQ(problems.size(), 2U) << data;
    EXPECT_NE(problems[0].find("/b: unknown key"), std::string::npos) << problems[0];
  }
}

TEST(BrokenConfigs, ARuleIsLeftOutWhereAKeyInItIsWrongItself) {
  EXPECT_EQ(
      problems_of(config_text(R"("sequence": {"max_length": "x", "min_length": 4096})")).size(),
      1U);
  EXPECT_EQ(
      problems_of(
          config_text(R"("model": {"rope_theta": 5e5, "rope_parameters": {"rope_theta": 0}})"))
          .size(),
      1U);
}

}  // namespace
}  // namespace lmtrain
