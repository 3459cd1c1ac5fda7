#include "training/bench.h"

#include "base/support.h"
#include "base/text.h"
#include "support/pooled_memory.h"
#include "tokenizer/tokenizer.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

Config tiny_config() {
  Config config;
  config.threads = 1;
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.compile = CompileMode::kScript;
  config.model = testing::tiny_model_config();
  config.sequence.max_length = 32;
  config.sequence.min_length = 8;
  config.batch = {256, 64};
  return config;
}

TEST(Bench, MeasuresEveryLength) {
  std::vector<int64_t> reported;
  const BenchResult result = run_bench(
      tiny_config(), {/*steps=*/3, /*warmup=*/1},
      [&](const LengthBench& length) { reported.push_back(length.length); }, nullptr);
  EXPECT_EQ(reported, (std::vector<int64_t>{8, 16, 32}));
  ASSERT_EQ(result.lengths.size(), 3U);
  EXPECT_GT(result.matmul_rate, 1e8);
  double before = 0;
  for (const LengthBench& length : result.lengths) {
    EXPECT_EQ(length.micro_rows * length.length, 64);
    EXPECT_EQ(length.micro_batches, 4);
    EXPECT_GT(length.seconds, 0);
    EXPECT_LE(length.seconds_min, length.seconds);
    EXPECT_GE(length.seconds_max, length.seconds);
    EXPECT_NEAR(length.tokens_per_second * length.seconds, 256, 1e-6);
    // 6N + 6 L D T with L = 2 and D = 16: 192 more a position.
    const auto n = static_cast<double>(result.num_parameters);
    EXPECT_EQ(length.flops_per_token, 6 * n + 192.0 * static_cast<double>(length.length));
    EXPECT_GT(length.flops_per_token, before);
    before = length.flops_per_token;
    EXPECT_NEAR(length.flops_per_second, length.tokens_per_second * length.flops_per_token, 1);
    EXPECT_FALSE(length.mfu.has_value());  // no data sheet of a CPU
    EXPECT_GT(length.peak_memory, uint64_t{1} << 20);
    EXPECT_GT(length.planned_memory, 0);
    for (const char* phase : {"forward", "backward", "sum gradient", "clip", "update"})
      EXPECT_GT(length.phases.at(phase), 0) << phase;
    EXPECT_EQ(length.phases.size(), 5U);
  }
}

// In steps without, since the phases of a graph cannot be told apart.
TEST(Bench, HasThePhasesOfStepsByGraphsToo) {
  Config config = tiny_config();
  config.compile = CompileMode::kGraph;
  const BenchResult result = run_bench(
      config, {/*steps=*/1, /*warmup=*/0}, [](const LengthBench&) {}, nullptr);
  for (const LengthBench& length : result.lengths) {
    EXPECT_GT(length.seconds, 0);
    EXPECT_EQ(length.phases.size(), 5U);
    EXPECT_GT(length.phases.at("backward"), 0);
  }
}

// Graphs keep the memory of their activations, and the phases are measured outside of them, where
// as much is wanted: not at the same time.
TEST(Bench, GraphsNeedNoMoreMemoryThanScript) {
  Config config = tiny_config();
  config.model.vocab_size = 8000;
  config.batch = {4096, 4096};
  const auto peak_of = [&](CompileMode compile) {
    config.compile = compile;
    testing::PooledMemory memory;
    BenchOptions options{/*steps=*/1, /*warmup=*/1};
    options.make_recorder = [&] { return std::make_unique<testing::PooledRecorder>(memory); };
    run_bench(
        config, options, [](const LengthBench&) {}, nullptr);
    const bool is_seen =
        compile != CompileMode::kGraph || memory.peak_of_pool() > memory.peak() / 2;
    EXPECT_TRUE(is_seen) << "the pool is too small a part";
    return static_cast<double>(memory.peak());
  };
  EXPECT_LT(peak_of(CompileMode::kGraph), 1.5 * peak_of(CompileMode::kScript));
}

TEST(Bench, PeakMemoryIsThatOfEachLengthAlone) {
  Config config = tiny_config();
  config.model.vocab_size = 8000;
  config.sequence.batching = Batching::kConcat;
  config.sequence.max_length = 512;
  const auto peak = [&](int64_t micro_tokens) {
    config.batch = {8192, micro_tokens};
    return static_cast<double>(run_bench(
                                   config, {1, 1}, [](const LengthBench&) {}, nullptr)
                                   .lengths.at(0)
                                   .peak_memory);
  };
  const double large = peak(4096);
  const double small = peak(512);  // after it
  // Logits of 3584 positions more.
  EXPECT_GT(large - small, 0.75 * 3584 * 8000 * 4);
}

TEST(Bench, TraceHasAStepOfEachLength) {
  std::string trace;
  run_bench(
      tiny_config(), {1, 0}, [](const LengthBench&) {}, &trace);
  for (const char* name :
       {"length 8", "length 16", "length 32", "forward", "update", "lm::rope_attention"})
    EXPECT_NE(trace.find(str('"', name, '"')), std::string::npos) << name;
}

TEST(Bench, LengthsAreThoseTheConfigCanHave) {
  const auto lengths = [](const std::string& batching, const std::string& schedule) {
    SequenceConfig sequence;
    sequence.min_length = 64;
    sequence.max_length = 256;
    sequence.batching = value_named<Batching>(batching).value();
    sequence.schedule.type = value_named<LengthScheduleType>(schedule).value();
    return lengths_of(sequence);
  };
  const std::vector<int64_t> all = {64, 128, 256};
  EXPECT_EQ(lengths("bucket", "constant"), all);
  EXPECT_EQ(lengths("pad", "natural"), all);
  EXPECT_EQ(lengths("concat", "linear"), all);
  EXPECT_EQ(lengths("pack", "step"), all);
  EXPECT_EQ(lengths("pack", "constant"), std::vector<int64_t>{256});
  SequenceConfig odd;
  odd.batching = Batching::kConcat;
  odd.schedule.type = LengthScheduleType::kRoot;
  odd.min_length = 10;
  odd.max_length = 100;  // 25 is no longer even
  EXPECT_EQ(lengths_of(odd), (std::vector<int64_t>{25, 50, 100}));
}

TEST(Bench, VocabularyWithoutData) {
  Config config = tiny_config();
  EXPECT_EQ(bench_vocab_size(config), testing::kTinyVocabulary);
  config.model.vocab_size.reset();
  config.tokenizer.train.vocab_size = 777;
  EXPECT_EQ(bench_vocab_size(config), 777);
  config.tokenizer.model = LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model";
  EXPECT_EQ(bench_vocab_size(config), Tokenizer::load(*config.tokenizer.model).vocab_size());
  EXPECT_NE(bench_vocab_size(config), 777);
}

}  // namespace
}  // namespace lmtrain
