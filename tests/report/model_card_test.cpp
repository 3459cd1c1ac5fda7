#include "report/model_card.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/text.h"
#include "config/parse.h"
#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Config config_of(const std::string& changes = "") {
  return parse_config(
      R"({"name": "own", "seed": 7, "data": {"train": [)"
      R"("/home/me/corpus/code/**/*.py", {"path": "/home/me/a|b.txt", "weight": 2}]},)"
      R"("optimizer": {"type": "lion", "lr": 0.0003})" +
          (changes.empty() ? "" : ", " + changes) + "}",
      "config.json", {});
}

// A run of 20 steps that was evaluated at the last one.
class ModelCardTest : public ::testing::Test {
 protected:
  CardFacts facts(const Config& config) {
    config_ = config;
    run_ = testing::finished_run("own", nlohmann::json::object(), 3.0);
    run_.evaluations.push_back({"eval_bits_per_byte", {20}, {2000}, {10}, {1.25}});
    run_.evaluations.push_back({"task/cap_1/accuracy", {20}, {2000}, {10}, {0.5}});
    totals_ = {{7, 1500, 6000}, {1, 90, 300}, {{0, 3, 400}, {1, 4, 300}}};
    CardFacts facts;
    facts.name = config_.name;
    facts.model = config_.model;
    facts.vocab_size = 512;
    facts.max_length = 1024;
    facts.num_parameters = 1234567;
    facts.step = 20;
    facts.tokens = 2000;
    facts.config = &config_;
    facts.run = &run_;
    facts.totals = &totals_;
    return facts;
  }

  Config config_;
  RunRecord run_;
  DataTotals totals_;
};

TEST_F(ModelCardTest, TheFrontMatterIsWhatHubsRead) {
  const std::string card = model_card(facts(
      config_of(R"("card": {"license": "mit", "language": ["en", "no"], "datasets": "me/x"})")));
  EXPECT_TRUE(card.starts_with("---\n" + std::string(kCardMark) +
                               R"yaml(license: "mit"
language:
- "en"
- "no"
library_name: transformers
pipeline_tag: text-generation
tags:
- "lmtrain"
- "llama"
datasets:
- "me/x"
metrics:
- "loss"
- "perplexity"
- "bits_per_byte"
- "accuracy"
model-index:
- name: "own"
  results:
  - task:
      type: text-generation
      name: "Text generation"
    dataset:
      type: "held-out"
      name: "Held-out text"
    metrics:
    - type: loss
      value: 3.0000
      name: "Loss (nats a token)"
    - type: perplexity
      value: 20.09
      name: "Perplexity"
    - type: bits_per_byte
      value: 1.2500
      name: "Bits per byte"
  - task:
      type: text-generation
      name: "Text generation"
    dataset:
      type: "cap_1"
      name: "cap_1"
    metrics:
    - type: accuracy
      value: 0.5000
      name: "Accuracy"
---
)yaml"))
      << card;
}

TEST_F(ModelCardTest, SaysModelRecipeDataAndResults) {
  const std::string card = model_card(facts(config_of()));
  EXPECT_FALSE(has(card, "license"));
  EXPECT_FALSE(has(card, "datasets"));
  for (const char* part :
       {"# own\n", "| Parameters | 1,234,567 (1.23M) |", "| Bits per byte | 1.2500 |",
        "| cap\\_1 | 0.5000 | – | – |", "![Training and held-out loss against tokens](curve.svg)",
        "| Trained on | 2,000 tokens (2.00K) in 20 steps, 2 passes over the text |",
        "| Optimizer | lion, peak rate 0.0003, betas 0.9, 0.99, weight decay", "| Seed | 7 |",
        "| code/\\*\\*/\\*.py | 3 | 400 | 1 |", "| a\\|b.txt | 4 | 300 | 2 |",
        "The held-out text has 1 document and 90 tokens",
        "AutoModelForCausalLM.from_pretrained(folder)", "lmtrain generate . --prompt",
        "--format gguf", "lmtrain train config.json"})
    EXPECT_TRUE(has(card, part)) << part << "\n" << card;
  EXPECT_FALSE(has(card, "/home/me")) << "a path of the machine";
  EXPECT_EQ(card, model_card(facts(config_of())));
}

TEST_F(ModelCardTest, NamesNoCommandThatExportRefuses) {
  const auto card_of = [&](const std::string& model) {
    return model_card(facts(config_of(R"("model": {"model_type": )" + model + "}")));
  };
  EXPECT_TRUE(has(card_of(R"("qwen2")"), "--format gguf"));
  const std::string scaled = R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8})";
  EXPECT_TRUE(has(card_of(R"("llama")" + scaled), "--format gguf"));
  EXPECT_FALSE(has(card_of(R"("qwen2")" + scaled), "--format gguf"));
}

// The config in the card, with the paths in their places, is the recipe of the run.
TEST_F(ModelCardTest, ItsConfigTrainsTheModelAgain) {
  const std::string card = model_card(facts(config_of(
      R"("sequence": {"batching": "pack", "max_length": 512}, "train": {"steps": 9},)"
      R"("loss": {"z_loss": 0.001}, "threads": 3, "log": {"prometheus": "/metrics/own.prom"})")));
  const size_t begin = card.find("```json\n") + 8;
  const std::string text = card.substr(begin, card.find("```", begin) - begin);
  EXPECT_FALSE(has(text, "threads"));
  EXPECT_FALSE(has(text, "metrics"));
  Config again = parse_config(text, "config.json", {});
  EXPECT_EQ(again.data.train[0].path, "code/**/*.py");
  Config expected = config_;
  expected.data.train[0].path = "code/**/*.py";
  expected.data.train[1].path = "a|b.txt";
  expected.name = again.name;
  expected.threads = again.threads;
  expected.log.prometheus = again.log.prometheus;
  EXPECT_EQ(config_to_json(again), config_to_json(expected));
}

TEST_F(ModelCardTest, NamesTheArchitectureThatTransformersOpens) {
  const std::pair<const char*, const char*> classes[] = {
      {"llama", "LlamaForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"}};
  for (const auto& [type, name] : classes) {
    const std::string card =
        model_card(facts(config_of(str(R"("model": {"model_type": ")", type, R"("})"))));
    EXPECT_TRUE(has(card, str("| Architecture | `", name, "`").c_str())) << card;
  }
}

TEST_F(ModelCardTest, OfAnEarlierCheckpointTheFiguresAreItsOwn) {
  CardFacts known = facts(config_of());
  known.step = 10;
  known.tokens = 1000;
  known.eval_loss = 4.0;
  const std::string card = model_card(known);
  EXPECT_TRUE(has(card, "These are the weights after step 10 of 20."));
  EXPECT_TRUE(has(card, "| Loss (nats a token) | 4.0000 |"));
  EXPECT_FALSE(has(card, "Bits per byte |"));
  EXPECT_FALSE(has(card, "cap"));
}

TEST_F(ModelCardTest, WithoutARunItSaysWhatIsKnown) {
  CardFacts known = facts(config_of());
  known.config = nullptr;
  known.run = nullptr;
  known.totals = nullptr;
  known.step = known.tokens = std::nullopt;
  const std::string card = model_card(known);
  EXPECT_EQ(card_curve(known), "");
  EXPECT_TRUE(has(card, "How it was trained is not known here.")) << card;
  for (const char* part : {"model-index", "metrics:", "curve.svg", "## Recipe", "## Data", "Seed",
                           "## Results", "config.json"})
    EXPECT_FALSE(has(card, part)) << part;
  EXPECT_TRUE(has(card, "## Model"));
  EXPECT_TRUE(has(card, "## Use"));
}

TEST_F(ModelCardTest, NoTextFromOutsideIsMarkup) {
  CardFacts known = facts(config_of());
  known.name = "x\": [y]\n---\n# <b>*no*\x01\xFF";
  config_.data.train[0].path = "/a/`x`|</td>[l](u)";
  config_.card.license = "a: b # c";
  const std::string card = model_card(known);
  EXPECT_TRUE(has(card, R"(- name: "x\": [y]\U0000000A---\U0000000A# <b>*no*\U00000001)"
                        "\xEF\xBF\xBD\"\n"))
      << card;
  EXPECT_TRUE(has(card, R"(license: "a: b # c")"));
  EXPECT_TRUE(has(card, "# x\"\\: \\[y\\] --- \\# &lt;b&gt;\\*no\\*\xEF\xBF\xBD\xEF\xBF\xBD\n"))
      << card;
  EXPECT_TRUE(has(card, "| \\`x\\`\\|&lt;/td&gt;\\[l\\]\\(u\\) |")) << card;
  // Backticks in the config do not end its block.
  config_.data.train[0].path = "````";
  EXPECT_TRUE(has(model_card(known), "\n`````json\n")) << model_card(known);
}

TEST(YamlText, IsReadBackByEveryReader) {
  EXPECT_EQ(yaml_text("plain"), "\"plain\"");
  EXPECT_EQ(yaml_text("a\\b\"c"), R"("a\\b\"c")");
  EXPECT_EQ(yaml_text("\t\x7F"), R"("\U00000009\U0000007F")");
  EXPECT_EQ(yaml_text("ä😀"), "\"ä😀\"");
  EXPECT_EQ(yaml_text("\xEF\xBB\xBF"), R"("\U0000FEFF")");  // a byte order mark
  EXPECT_EQ(yaml_text("\xE2\x80\xAE"), R"("\U0000202E")");  // it turns the direction of text
  EXPECT_EQ(yaml_text("\xC2\x85\xE2\x80\xA8"), R"("\U00000085\U00002028")");  // line breaks
}

TEST(LastParts, TellWhatAPathIs) {
  EXPECT_EQ(last_parts("/home/me/a.txt"), "a.txt");
  EXPECT_EQ(last_parts("/home/me/corpus/"), "corpus");
  EXPECT_EQ(last_parts("/home/me/corpus/**/*.py"), "corpus/**/*.py");
  EXPECT_EQ(last_parts("*.txt"), "*.txt");
  EXPECT_EQ(last_parts("/x/runs/own/checkpoints/step_00000010"), "own/checkpoints/step_00000010");
  EXPECT_EQ(last_parts("/hub/models--a--b/snapshots/0123"), "models--a--b/snapshots/0123");
  EXPECT_EQ(last_parts("hf://a/b"), "hf://a/b");
  EXPECT_EQ(last_parts("/"), "");
}

}  // namespace
}  // namespace lmtrain
