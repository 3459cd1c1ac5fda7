#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "config/config_text.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

// Fills every setting of the table with a random value of its kind and range.
class RandomFiller {
 public:
  explicit RandomFiller(uint64_t seed) : seed_(seed) {}

  uint64_t below(uint64_t size) { return bits() % size; }
  double uniform() { return random_uniform(seed_, RandomStream::kSample, count_++); }

  void fill(const Setting& setting) {
    setting_ = &setting;
    std::visit(*this, setting.slot);
  }

  void operator()(std::monostate) {}
  void operator()(bool* slot) { *slot = below(2) == 0; }
  void operator()(double* slot) { *slot = number(); }
  void operator()(int64_t* slot) { *slot = integer(); }
  void operator()(std::string* slot) {
    *slot = setting_->kind == SettingKind::kDevice ? "cuda:" + std::to_string(below(8)) : text();
  }
  void operator()(const ChoiceSlot& slot) {
    const std::vector<std::string>& choices = setting_->choices;
    EXPECT_TRUE(slot.assign(choices[below(choices.size())]));
  }
  void operator()(TrainingDuration* slot) { *slot = duration(); }
  void operator()(std::vector<double>* slot) { *slot = {number(), number()}; }
  void operator()(std::vector<int64_t>* slot) { *slot = {integer(), integer()}; }
  void operator()(std::vector<TrainingDuration>* slot) { *slot = {duration(), duration()}; }
  template <class T>
  void operator()(std::optional<T>* slot) {
    slot->reset();
    if (below(2) == 0) (*this)(&slot->emplace());
  }
  void operator()(RopeScalingConfig* slot) {
    constexpr RopeType kTypes[] = {RopeType::kLinear, RopeType::kLlama3, RopeType::kYarn};
    *slot = {kTypes[below(3)], 1 + uniform(), uniform() + 0.1, 2 + uniform(),
             1 + integer_below(4096)};
    for (std::optional<double>* factor :
         {&slot->attention_factor, &slot->mscale, &slot->mscale_all_dim}) {
      if (below(2) == 0) *factor = uniform() + 0.1;
    }
    slot->beta_fast = 2 + uniform();
    slot->beta_slow = uniform() + 0.1;
    slot->truncate = below(2) == 0;
  }
  void operator()(std::vector<std::string>* slot) { *slot = {text(), text()}; }
  void operator()(SamplesConfig* slot) { *slot = {{text(), text()}, 1 + integer_below(1000)}; }
  void operator()(EarlyStopConfig* slot) { *slot = {1 + integer_below(1000), uniform()}; }
  void operator()(std::vector<DataSourceConfig>* slot) {
    slot->clear();
    for (uint64_t i = 0; i <= below(3); ++i) slot->push_back({text(), uniform() + 0.1});
  }
  void operator()(std::vector<OptimizerGroupConfig>* slot) {
    slot->clear();
    for (uint64_t i = 0; i < below(3); ++i) {
      slot->push_back({text(), std::nullopt, std::optional(uniform())});
    }
  }

 private:
  uint64_t bits() { return random_bits(seed_, RandomStream::kSample, count_++); }
  int64_t integer_below(uint64_t size) { return static_cast<int64_t>(below(size)); }
  int64_t integer() {
    const double low = std::max(setting_->bounds.low, 0.0);
    const double high = std::min(setting_->bounds.high, 0x1p53);
    const double value = low + (high - low) * std::pow(uniform(), 8.0);
    return static_cast<int64_t>(std::floor(value));
  }
  double number() {
    const double low = std::max(setting_->bounds.low, 0.0);
    const double high = std::min(setting_->bounds.high, low + std::pow(10.0, 12 * uniform() - 6));
    return low + (high - low) * (1 - uniform()) * 0.999;
  }
  TrainingDuration duration() {
    const TrainingDuration::Unit unit = setting_->units[below(setting_->units.size())];
    if (unit == TrainingDuration::Unit::kPercent) return {49 * uniform(), unit};
    if (unit == TrainingDuration::Unit::kSeconds) return {1e5 * uniform(), unit};
    return {static_cast<double>(below(uint64_t{1} << below(50))), unit};
  }
  std::string text() {
    static const std::vector<std::string> kTexts = {"a",
                                                    "with space",
                                                    "quote\"back\\slash",
                                                    "*.py",
                                                    "h\xC3\xA9\xF0\x9F\x98\x80",
                                                    "tab\tnew\nline",
                                                    "auto",
                                                    "null",
                                                    "// no comment",
                                                    "/* no */"};
    return kTexts[below(kTexts.size())];
  }

  uint64_t seed_;
  uint64_t count_ = 0;
  const Setting* setting_ = nullptr;
};

// A valid configuration with every setting drawn at random.
Config random_config(uint64_t seed) {
  Config c;
  RandomFiller random(seed);
  const SettingTable table = config_settings(c);
  for (const Setting& setting : table.settings()) random.fill(setting);
  // What must hold across settings.
  c.name = "name " + std::to_string(seed);
  c.sequence.min_length = int64_t{1} << random.below(8);
  c.sequence.max_length = c.sequence.min_length << random.below(8);
  if (c.sequence.batching == Batching::kPack || c.sequence.batching == Batching::kConcat) {
    c.sequence.schedule.type = LengthScheduleType::kLinear;
  }
  std::vector<TrainingDuration>& boundaries = c.sequence.schedule.boundaries;
  c.sequence.schedule.lengths.assign(boundaries.size(), c.sequence.min_length);
  for (size_t i = 0; i < boundaries.size(); ++i) {
    boundaries[i].value += 1 + (i > 0 ? boundaries[i - 1].value : 0);
    if (boundaries[i].unit == TrainingDuration::Unit::kPercent)
      boundaries[i].value = static_cast<double>(i + 1);
  }
  const auto micro = static_cast<int64_t>(1 + random.below(5)) * c.sequence.max_length;
  if (c.batch.micro_tokens) c.batch.micro_tokens = micro;
  c.batch.tokens = micro * static_cast<int64_t>(1 + random.below(9));
  c.model.num_key_value_heads = 1 + static_cast<int64_t>(random.below(4));
  c.model.num_attention_heads = c.model.num_key_value_heads * 2;
  c.model.hidden_size =
      c.model.num_attention_heads * 2 * (1 + static_cast<int64_t>(random.below(64)));
  if (c.model.head_dim) c.model.head_dim = 64;
  if (c.model.sliding_window) *c.model.sliding_window += c.sequence.max_length;
  c.model.rope_theta += 1;  // as yarn needs
  if (c.precision == PrecisionSetting::kFp8) {
    c.model.hidden_size *= 16;
    c.model.intermediate_size = 16 * (1 + static_cast<int64_t>(random.below(64)));
  }
  c.restart.tokens.value = std::max(c.restart.tokens.value, 1.0);
  if (auto& vocab_size = c.tokenizer.train.vocab_size)
    vocab_size = std::min<int64_t>(*vocab_size + 260, 4'000'000);
  if (c.model.vocab_size) c.model.vocab_size = c.tokenizer.train.vocab_size.value_or(260) + 1;
  c.parallel.parts = int64_t{1} << random.below(7);
  c.optimizer.betas.resize(optimizer_defaults(c.optimizer.type).betas.size(), 0.5);
  c.optimizer.cautious_decay =
      c.optimizer.cautious_decay && c.optimizer.type != OptimizerType::kAdam;
  const uint64_t length = random.below(3);
  c.train.steps = length == 0 ? std::optional<int64_t>(5) : std::nullopt;
  c.train.tokens = length == 1 ? std::optional<int64_t>(12345) : std::nullopt;
  c.train.epochs = length == 2 ? std::optional(0.1 + random.uniform()) : std::nullopt;
  c.train.replanned_at.resize(c.train.tokens ? c.train.planned_tokens.size() : 0, 7);
  c.train.planned_tokens.resize(c.train.replanned_at.size());
  std::ranges::sort(c.train.replanned_at);
  // A resolved config has groups, tokens and a shape instead.
  c.optimizer.base_width.reset();
  c.train.time.reset();
  c.model.size.reset();
  return c;
}

TEST(WriteSettings, AResolvedConfigParsesBackToAnEqualOne) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Config config = random_config(seed);
    try {
      const std::string json = config_to_json(config).dump(2);
      ASSERT_EQ(parse_config(json, "x.json", {}, ConfigAuthor::kRun), config) << json;
      const std::string shown = show_config(config);
      ASSERT_EQ(parse_config(shown, "x.json", {}, ConfigAuthor::kRun), config) << shown;
      ASSERT_EQ(config_to_json(parse_config(json, "x.json", {}, ConfigAuthor::kRun)).dump(2), json);
    } catch (const Error& error) {
      FAIL() << error.what() << "\n" << show_config(config);
    }
  }
}

TEST(WriteSettings, EveryKeyIsThere) {
  Config config = parsed("");
  const SettingTable table = config_settings(config);
  const nlohmann::ordered_json json = config_to_json(config);
  for (const Setting& setting : table.settings()) {
    const bool has_value = !std::holds_alternative<std::monostate>(setting.slot);
    EXPECT_EQ(json.contains(nlohmann::json::json_pointer(pointer_of(setting.key))), has_value)
        << setting.key;
  }
}

TEST(ShowConfig, MarksWhatAnotherVariantUses) {
  const std::string shown =
      show_config(parsed(R"("optimizer": {"momentum": 0.9}, "tokenizer": {"model": "t.model"})"));
  const auto has = [&](const std::string& line) {
    EXPECT_NE(shown.find(line), std::string::npos) << line << " in\n" << shown;
  };
  has("\"momentum\": 0.9,  // run.json:2; unused: optimizer.type is adamw\n");
  has("\"vocab_size\": \"auto\",  // unused: tokenizer.model is given\n");
  has("\"decay\": \"20%\",  // unused: lr_schedule.type is cosine\n");
  has("\"normuon\": false,  // unused: optimizer.type is adamw\n");
  has("\"normuon_beta2\": 0.95,  // unused: optimizer.normuon is false\n");
  has("\"lr\": 0.001,\n");
  // It depends on tokenizer.train.type, which has no effect here.
  has("\"byte_fallback\": true,  // unused: tokenizer.model is given\n");
  EXPECT_NE(show_config(parsed(R"("tokenizer": {"train": {"type": "byte_bpe"}})"))
                .find("\"byte_fallback\": true,  // unused: tokenizer.train.type is byte_bpe\n"),
            std::string::npos);
  EXPECT_EQ(show_config(parsed(R"("optimizer": {"type": "muon"})"))
                .find("unused: optimizer.type is adamw"),
            std::string::npos);
}

TEST(ShowConfig, SaysWhereAValueWasGiven) {
  const std::string shown =
      show_config(parsed("\"seed\": 5,\n\"optimizer\": {\"lr\": 0.5,\n\"eps\": 1e-6}",
                         {"clip.max=2", "log={\"every\": 3}", "name=a\nb"}));
  const auto has = [&](const std::string& line) {
    EXPECT_NE(shown.find(line), std::string::npos) << line << " in\n" << shown;
  };
  EXPECT_TRUE(shown.starts_with("// ")) << shown;
  has("\"seed\": 5,  // run.json:2\n");
  has("\"lr\": 0.5,  // run.json:3\n");
  has("\"eps\": 1e-06,  // run.json:4\n");
  has("\"max\": 2.0  // --set clip.max=2\n");
  has("\"every\": 3,  // --set log={\"every\": 3}\n");
  has("\"name\": \"a\\nb\",  // --set name=a\\nb\n");
  has("\"threads\": \"auto\",\n");
  has("\"tensorboard\": true,\n");
}

TEST(ConfigToJson, NamedSetsComeBackAsTheyWere) {
  Config config = parsed("", {R"(data.eval={"python": "a/*.py", "all": ["b", {"path": "/c"}]})"});
  const nlohmann::ordered_json eval = config_to_json(config)["data"]["eval"];
  EXPECT_EQ(eval.dump(), R"({"python":[{"path":"a/*.py","weight":1.0}],)"
                         R"("all":[{"path":"b","weight":1.0},{"path":"/c","weight":1.0}]})");
  EXPECT_EQ(parsed("", {"data.eval=" + eval.dump()}).data.eval, config.data.eval);
  EXPECT_NE(show_config(config).find(R"("eval": {"python":[{"path":)"), std::string::npos);
  make_paths_absolute(config);
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(*config.data.eval,
            (std::vector<DataSourceConfig>{
                {here + "/a/*.py", 1.0, "python"}, {here + "/b", 1.0, "all"}, {"/c", 1.0, "all"}}));
}

TEST(MakePathsAbsolute, GlobsToo) {
  const std::string here = std::filesystem::current_path().string();
  Config config = parse_config(
      R"({"data": {"train": ["corpus/**/*.py", "/abs/*", "./x", "s3://b/k", ".//y", "./."],
      "eval": ["../e"]}, "run_dir": "r", "tokenizer": {"model": "t.model"}})",
      "r.json", {});
  make_paths_absolute(config);
  EXPECT_EQ(config.data.train[0].path, here + "/corpus/**/*.py");
  EXPECT_EQ(config.data.train[1].path, "/abs/*");
  EXPECT_EQ(config.data.train[2].path, here + "/x");
  EXPECT_EQ(config.data.train[3].path, "s3://b/k");
  EXPECT_EQ(config.data.train[4].path, here + "/y");
  EXPECT_EQ(config.data.train[5].path, here + "/.");
  EXPECT_EQ((*config.data.eval)[0].path, here + "/../e");
  EXPECT_EQ(config.run_dir, here + "/r");
  EXPECT_EQ(config.tokenizer.model, here + "/t.model");
  EXPECT_EQ(config.data.cache_dir, here + "/cache");
  EXPECT_EQ(config.init_from, std::nullopt);
  const Config once = config;
  make_paths_absolute(config);
  EXPECT_EQ(config, once);
}

}  // namespace
}  // namespace lmtrain
