// Errors of the configuration, and of what this machine cannot do.
#include "e2e/errors/error_case.h"

namespace lmtrain::testing {
namespace {

// train with a file of exactly this text.
ErrorCase text_case(const std::string& name, const std::string& text,
                    const std::vector<std::string>& parts) {
  return {name, 2, parts, [text](const Workspace& workspace) {
            return train_command(workspace, workspace.write("config.json", text));
          }};
}

ErrorCase set_case(const std::string& name, const std::string& setting,
                   const std::vector<std::string>& parts) {
  return {name, 2, parts, [setting](const Workspace& workspace) {
            Arguments arguments = train_command(workspace, workspace.config());
            arguments.insert(arguments.end(), {"--set", setting});
            return arguments;
          }};
}

std::vector<ErrorCase> config_cases() {
  return {
      config_case("UnknownKey", 2, {{"optimizer", {{"learning_rate", 1e-3}}}},
                  {"config.json:", "/optimizer/learning_rate", "unknown"}),
      config_case("MisspeltKey", 2, {{"optimizer", {{"weight_decai", 0.1}}}},
                  {"config.json:", "/optimizer/weight_decai", "did you mean", "weight_decay"}),
      config_case("MisspeltSection", 2, {{"optimiser", Json::object()}},
                  {"config.json:", "/optimiser", "optimizer"}),
      config_case("WrongType", 2, {{"seed", "abc"}}, {"config.json:", "/seed", "abc"}),
      config_case("FractionForCount", 2, {{"model", {{"num_hidden_layers", 1.5}}}},
                  {"config.json:", "/model/num_hidden_layers", "1.5"}),
      config_case("OutOfRange", 2, {{"optimizer", {{"lr", -1}}}},
                  {"config.json:", "/optimizer/lr", "-1", "allowed"}),
      config_case("UnknownChoice", 2, {{"sequence", {{"batching", "buckets"}}}},
                  {"/sequence/batching", "buckets", "bucket", "concat"}),
      config_case("TwoLengths", 2, {{"train", {{"tokens", "1M"}}}},
                  {"train.steps", "train.tokens", "one of"}),
      config_case("BadUnit", 2, {{"eval", {{"every", "5 stepz"}}}},
                  {"/eval/every", "5 stepz", "allowed"}),
      config_case("NoData", 2, {{"data", {{"train", nullptr}}}}, {"data.train", "missing"}),
      config_case("LengthNoPowerOfTwo", 2, {{"sequence", {{"max_length", 48}}}},
                  {"/sequence/max_length", "48", "power of two", "32 and 64"}),
      config_case("MinAboveMax", 2, {{"sequence", {{"min_length", 128}}}},
                  {"min_length 128", "max_length 64"}),
      config_case("BatchNoMultiple", 2, {{"batch", {{"tokens", 100}}}},
                  {"/batch/tokens", "100", "multiple", "128"}),
      config_case("MicroBatchNoDivisor", 2, {{"batch", {{"micro_tokens", 192}}}},
                  {"/batch/micro_tokens", "192", "256"}),
      config_case("EarlyStopWithoutHeldOutText", 2,
                  {{"eval", {{"early_stop", Json::object()}}},
                   {"data", {{"eval", nullptr}, {"eval_fraction", 0}}}},
                  {"config.json:", "/eval/early_stop", "data.eval_fraction is 0"}),
      config_case("TasksWithoutHeldOutText", 2,
                  {{"eval", {{"tasks", "data/tasks"}}},
                   {"data", {{"eval", nullptr}, {"eval_fraction", 0}}}},
                  {"config.json:", "/eval/tasks", "data.eval_fraction is 0"}),
      config_case("HeadsDoNotDivide", 2, {{"model", {{"num_attention_heads", 3}}}},
                  {"num_attention_heads", "3", "multiple"}),
      config_case("KeyValueHeadsDoNotDivide", 2, {{"model", {{"num_key_value_heads", 3}}}},
                  {"num_key_value_heads", "3", "multiple"}),
      config_case("OrderWithoutBuckets", 2,
                  {{"sequence", {{"batching", "concat"}, {"schedule", {{"type", "grow_p2"}}}}}},
                  {"sequence.schedule.type", "grow_p2", "constant"}),
      config_case("VocabularyWithoutBytes", 2,
                  {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 100}}}}}},
                  {"tokenizer.train.vocab_size", "100", "260"}),
      config_case("BiasedModel", 2, {{"model", {{"attention_bias", true}}}},
                  {"/model/attention_bias", "true"}),
      config_case("UndefinedVariable", 2, {{"data", {{"train", {"${LMTRAIN_NO_SUCH}/a"}}}}},
                  {"LMTRAIN_NO_SUCH", "/data/train"}),
      config_case("ThreeAtOnce", 2, {{"seed", "x"}, {"sedd", 1}, {"clip", {{"max", -2}}}},
                  {"/seed", "/sedd", "/clip/max"}),
      text_case("DuplicateKey", "{\n  \"seed\": 1,\n  \"seed\": 2\n}\n",
                {"config.json:3", "/seed", "twice"}),
      text_case("NoJson", "{\n  \"seed\": ,\n}\n", {"config.json:2"}),
      text_case("CutShort", "{\n  \"seed\": 1,\n  \"data\": {", {"config.json:3"}),
      text_case("EmptyFile", "", {"config.json:1"}),
      text_case("NotAnObject", "[1, 2]\n", {"config.json:1", "object"}),
      text_case("BinaryFile",
                std::string("\x7F"
                            "ELF\0\1\2\xFF",
                            8),
                {"config.json:1"}),
      {"MissingConfig",
       2,
       {"no-such.json", "no such file", "give the path"},
       [](const Workspace& workspace) {
         return train_command(workspace, (workspace / "no-such.json").string());
       }},
      {"ConfigIsAFolder",
       2,
       {"is a folder"},
       [](const Workspace& workspace) {
         std::filesystem::create_directory(workspace / "config.json");
         return train_command(workspace, (workspace / "config.json").string());
       }},
      set_case("SetUnknownKey", "optimizer.lrr=1", {"--set", "optimizer", "lrr", "lr"}),
      set_case("SetWithoutValue", "optimizer.lr", {"--set", "optimizer.lr", "="}),
      set_case("SetWrongType", "train.steps=many", {"--set", "/train/steps", "many"}),
      set_case("SetTwoLengths", "train={\"steps\":5,\"tokens\":7}",
               {"train.steps", "train.tokens"}),
      set_case("SetBrokenJson", "data={\"train\":", {"--set", "data"}),
  };
}

std::vector<ErrorCase> unsupported_cases() {
  return {
      config_case("PrecisionFp8", 2, {{"precision", "fp8"}, {"device", "cpu"}},
                  {"\"fp8\"", "on a CPU", "8.9", "set precision to \"bf16\""}),
      config_case("Fp8HiddenSize", 2, {{"precision", "fp8"}, {"model", {{"hidden_size", 136}}}},
                  {"config.json:", "/model/hidden_size", "136", "multiple of 16"}),
      config_case("NoGpu", 2, {{"device", "cuda"}}, {"cuda", "set device to \"cpu\" or \"auto\""}),
      config_case("NoSuchGpu", 2, {{"device", "cuda:31"}}, {"cuda:31", "cpu", "auto"}),
      config_case("BadDevice", 2, {{"device", "gpu"}}, {"/device", "gpu", "cuda"}),
  };
}

INSTANTIATE_TEST_SUITE_P(Config, Errors, ::testing::ValuesIn(config_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Unsupported, Errors, ::testing::ValuesIn(unsupported_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
