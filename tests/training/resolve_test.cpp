// From `auto` to what happens on this machine.
#include "training/resolve.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/machine.h"
#include "base/support.h"
#include "batching/test_corpus.h"
#include "training/memory_plan.h"

namespace lmtrain {
namespace {

using testing::error_of;

// Sets OMP_NUM_THREADS, or takes it away, for a scope.
class OmpNumThreads {
 public:
  explicit OmpNumThreads(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    set(value);
  }
  ~OmpNumThreads() { set(before_ ? before_->c_str() : nullptr); }
  OmpNumThreads(const OmpNumThreads&) = delete;
  OmpNumThreads& operator=(const OmpNumThreads&) = delete;

 private:
  static constexpr const char* kName = "OMP_NUM_THREADS";
  static void set(const char* value) {
    if (value != nullptr) {
      ::setenv(kName, value, 1);
    } else {
      ::unsetenv(kName);
    }
  }
  std::optional<std::string> before_;
};

// On a CPU in fp32, so that the machine does not matter.
Config on_cpu(int64_t batch_tokens, int64_t max_length) {
  Config config;
  config.threads = 1;
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.batch.tokens = batch_tokens;
  config.batch.micro_tokens.reset();
  config.sequence.max_length = max_length;
  return config;
}
int64_t micro_tokens_of(int64_t batch_tokens, int64_t max_length) {
  Config config = on_cpu(batch_tokens, max_length);
  resolve_runtime(config);
  return *config.batch.micro_tokens;
}

TEST(Resolve, ThreadsAreThoseOfOpenMpOrTheProcessors) {
  for (const char* none : {"0", "-2", "many", ""}) {
    const OmpNumThreads variable(none);
    EXPECT_EQ(default_threads(), available_processors()) << none;
  }
  const OmpNumThreads absent(nullptr);
  EXPECT_EQ(default_threads(), available_processors());
  const OmpNumThreads three("3");
  EXPECT_EQ(default_threads(), 3);
}

TEST(Resolve, NothingIsLeftToAuto) {
  Config config;
  const OmpNumThreads one("1");
  config.device = "cpu";
  config.threads.reset();
  config.batch.micro_tokens.reset();
  config.precision = PrecisionSetting::kAuto;
  config.compile = CompileMode::kAuto;
  resolve_runtime(config);
  EXPECT_EQ(config.threads, 1);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_NE(config.precision, PrecisionSetting::kAuto);
  EXPECT_EQ(config.compile, CompileMode::kScript);
  EXPECT_TRUE(config.batch.micro_tokens.has_value());
  // Resolved again, as on a resume, it stays as it is.
  Config again = config;
  resolve_runtime(again);
  EXPECT_EQ(again, config);
}

TEST(Resolve, ValuesThatAreGivenStay) {
  Config config = on_cpu(65536, 1024);
  config.compile = CompileMode::kEager;
  config.batch.micro_tokens = 2048;
  const Config given = config;
  resolve_runtime(config);
  EXPECT_EQ(config, given);
  EXPECT_EQ(device_of(config), at::Device(at::kCPU));
  EXPECT_EQ(precision_of(config).dtype, at::kFloat);
  EXPECT_FALSE(precision_of(config).fp8);
}

TEST(Resolve, MicroBatchesDivideTheBatchIntoRowsOfTheLongest) {
  EXPECT_EQ(micro_tokens_of(65536, 1024), 8192);
  EXPECT_EQ(micro_tokens_of(3 * 1024, 1024), 3 * 1024);   // no more than the batch
  EXPECT_EQ(micro_tokens_of(10 * 1024, 1024), 5 * 1024);  // 8, 7 and 6 rows do not divide 10
  EXPECT_EQ(micro_tokens_of(11 * 1024, 1024), 1024);      // a prime
  EXPECT_EQ(micro_tokens_of(4 * 16384, 16384), 16384);    // one row at least
  EXPECT_EQ(micro_tokens_of(512, 1024), 1024);            // rows that are still to be chosen
}

// What a GPU with so much memory would be given, by the plan of this model.
TEST(Resolve, AGpuTakesTheMicroBatchThatItsMemoryHolds) {
  Config config = on_cpu(1 << 18, 1024);
  config.model.vocab_size = 8192;
  // From 16384 positions on with SwiGLU's value.
  const auto available_for = [&](int64_t positions) {
    const MemoryPlan plan = plan_memory(config, {at::kFloat}, positions);
    const int64_t value =
        positions >= 16384 ? swiglu_value_bytes(config, {at::kFloat}, positions) : 0;
    const double planned = static_cast<double>(plan.device_total() + value) +
                           0.5 * static_cast<double>(plan.of_positions());
    return static_cast<uint64_t>(planned / 0.9) + 1;
  };
  EXPECT_EQ(gpu_micro_tokens(config, std::nullopt, 1), 32768);
  EXPECT_EQ(gpu_micro_tokens(config, uint64_t{1} << 40, 1), 65536);
  for (const int64_t positions : {65536, 32768, 16384, 8192, 2048})
    EXPECT_EQ(gpu_micro_tokens(config, available_for(positions), 1), positions);
  EXPECT_EQ(gpu_micro_tokens(config, available_for(32768) - 2, 1), 16384);
  // Without the value there is room for more than 8192, which is tried before fewer with it.
  EXPECT_EQ(gpu_micro_tokens(config, available_for(16384) - 2, 1), 16384);
  EXPECT_EQ(gpu_micro_tokens(config, 0, 1), 1024)
      << "a row, of which the trial tells whether it fits";
  // 12 rows: 8 and 7 do not divide them.
  config.batch.tokens = 12 * 1024;
  EXPECT_EQ(gpu_micro_tokens(config, available_for(8 * 1024), 1), 6 * 1024);
  EXPECT_EQ(gpu_micro_tokens(config, uint64_t{1} << 40, 1), 12 * 1024);
  // What is given stays, as on a resume.
  config.batch.micro_tokens = 3 * 1024;
  resolve_micro_tokens(config, /*num_processes=*/1);
  EXPECT_EQ(config.batch.micro_tokens, 3 * 1024);
}

TEST(Resolve, GraphsAreScriptOnACpu) {
  Config config = on_cpu(65536, 1024);
  config.compile = CompileMode::kGraph;
  ::testing::internal::CaptureStderr();
  resolve_runtime(config);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("compile \"graph\" is \"script\" here"),
            std::string::npos);
  EXPECT_EQ(config.compile, CompileMode::kScript);
}

TEST(Resolve, TheVocabularyHoldsTheTokenizers) {
  const Tokenizer tokenizer =
      Tokenizer::load(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model");
  Config config;
  config.model.vocab_size.reset();
  resolve_vocab_size(config, tokenizer);
  EXPECT_EQ(config.model.vocab_size, tokenizer.vocab_size());
  config.model.vocab_size = tokenizer.vocab_size() + 100;
  resolve_vocab_size(config, tokenizer);
  EXPECT_EQ(config.model.vocab_size, tokenizer.vocab_size() + 100);
  config.model.vocab_size = tokenizer.vocab_size() - 1;
  const std::string message =
      error_of(ErrorKind::kConfig, [&] { resolve_vocab_size(config, tokenizer); });
  EXPECT_EQ(message.find("model.vocab_size is "), 0U) << message;
}

TEST(Resolve, ARunIsAsLongAsItsOneSettingSays) {
  TrainConfig train;
  train.tokens = 5000;
  EXPECT_EQ(run_length(train).tokens, 5000);
  EXPECT_EQ(run_length(train).steps, 0);
  train.steps = 7;  // it wins over the default of tokens
  EXPECT_EQ(run_length(train).steps, 7);
  EXPECT_EQ(run_length(train).tokens, 0);
  train.steps.reset();
  train.epochs = 1.5;
  EXPECT_EQ(run_length(train).epochs, 1.5);
  EXPECT_EQ(run_length(train).tokens, 0);
}

TEST(Resolve, ARunKnowsItsEarlierLengths) {
  TrainConfig train;
  train.tokens = 5000;
  train.planned_tokens = {7000, 4000};
  train.replanned_at = {10, 20};
  EXPECT_EQ(run_length(train, 0).tokens, 7000);
  EXPECT_EQ(run_length(train, 1).tokens, 4000);
  EXPECT_EQ(run_length(train, 2).tokens, 5000);
  EXPECT_EQ(run_length(train).tokens, 5000);
}

TEST(Resolve, TheClockCountsInTheUnitOfTheRun) {
  const TokenShard shard = make_shard({65, 129, 33});
  Config config;
  config.sequence.max_length = 64;
  config.sequence.min_length = 8;
  config.batch.tokens = 128;
  const auto clock = [&] {
    const BatchOrder order({.shard = shard,
                            .fingerprint = "corpus",
                            .sequence = config.sequence,
                            .data_seed = 1,
                            .batch_tokens = config.batch.tokens,
                            .run = run_length(config.train)});
    return run_clock(config, order);
  };
  config.train.tokens = 5000;
  EXPECT_EQ(clock().total, 5000);
  EXPECT_FALSE(clock().counts_steps);
  EXPECT_EQ(clock().tokens_per_step, 128);
  EXPECT_EQ(clock().tokens_per_epoch, 64 + 128 + 32);
  EXPECT_EQ(clock().done(), 0);
  config.train.tokens.reset();
  config.train.epochs = 2;
  EXPECT_EQ(clock().total, 2 * (64 + 128 + 32));
  EXPECT_FALSE(clock().counts_steps);
  config.train.epochs.reset();
  config.train.steps = 7;
  EXPECT_EQ(clock().total, 7);
  EXPECT_TRUE(clock().counts_steps);
}

}  // namespace
}  // namespace lmtrain
