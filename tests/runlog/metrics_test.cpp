// The lines of metrics.jsonl and events.jsonl, and status.json, byte by byte where it counts.
#include "runlog/metrics.h"

#include <unistd.h>

#include <cmath>
#include <sstream>

#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using Json = nlohmann::ordered_json;

class Metrics : public ::testing::Test {
 protected:
  static std::vector<Json> lines(const fs::path& file) {
    std::vector<Json> lines;
    std::istringstream text(read_file(file));
    for (std::string line; std::getline(text, line);)
      lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
    return lines;
  }
  static std::vector<std::string> keys(const Json& line) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.push_back(key);
    return keys;
  }

  TemporaryFolder folder_;
  RunFolder run_{folder_ / "."};
  TrainingState state_;
};

TEST(ModelFlopsUtilization, IsThatOfAllDevices) {
  EXPECT_EQ(model_flops_utilization(400, 1, 1000), 0.4);
  EXPECT_EQ(model_flops_utilization(1600, 4, 1000), 0.4);
  EXPECT_EQ(model_flops_utilization(400, 1, {}), std::nullopt);
}

TEST_F(Metrics, AnUpdateIsOneLine) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  log.update({.step = 3,
              .tokens = 384,
              .loss = 5.25,
              .grad_norm = 0.5,
              .lr = 1e-3,
              .seq_len = 64,
              .tokens_per_second = 9.5,
              .mfu = 0.25,
              .elapsed = 1.5});
  EXPECT_EQ(read_file(run_.metrics()),
            R"({"step":3,"tokens":384,"loss":5.25,"grad_norm":0.5,"lr":0.001,"seq_len":64,)"
            R"("tokens_per_second":9.5,"mfu":0.25,"elapsed":1.5})"
            "\n");
}

TEST_F(Metrics, TasksStandInTheLineOfTheirEvaluation) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  TaskResult task;
  task.name = "capitals";
  task.accuracy.value = 0.5;
  task.accuracy_norm.value = 0.25;
  task.centred.value = -0.125;
  task.bits_per_byte.value = std::nan("");
  log.evaluation(7, 900, {.all = {.nats = 2, .tokens = 1, .bytes = 1}}, {task});
  const Json line = lines(run_.metrics()).at(0);
  EXPECT_EQ(keys(line),
            (std::vector<std::string>{"step", "tokens", "eval_loss", "eval_perplexity",
                                      "eval_bits_per_byte", "task/capitals/accuracy",
                                      "task/capitals/accuracy_norm", "task/capitals/centred",
                                      "task/capitals/bits_per_byte", "task/centred_mean"}));
  EXPECT_EQ(line.at("task/capitals/accuracy"), 0.5);
  EXPECT_TRUE(line.at("task/capitals/bits_per_byte").is_null());
  EXPECT_EQ(line.at("task/centred_mean"), -0.125);
}

TEST_F(Metrics, AnUpdateOfSeveralProcessesSaysHowTheyWaited) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  UpdateMetrics metrics;
  metrics.balance = StepBalance{2, 0.75, 0.125};
  log.update(metrics);
  const std::string line = read_file(run_.metrics());
  EXPECT_TRUE(
      line.ends_with(R"("slowest_rank":2,"slowest_seconds":0.75,"communication_share":0.125})"
                     "\n"))
      << line;
}

TEST_F(Metrics, NumbersThatAreNotFiniteAreNull) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  UpdateMetrics lost;
  lost.loss = NAN;
  lost.grad_norm = lost.tokens_per_second = HUGE_VAL;
  log.update(lost);
  log.evaluation(5, 640, {.all = {.nats = NAN, .tokens = 10, .bytes = 20, .documents = 1}});
  const std::vector<Json> written = lines(run_.metrics());
  ASSERT_EQ(written.size(), 2U);
  for (const char* key : {"loss", "grad_norm", "tokens_per_second", "mfu"})
    EXPECT_TRUE(written[0].at(key).is_null()) << key;
  for (const char* key : {"eval_loss", "eval_perplexity", "eval_bits_per_byte"})
    EXPECT_TRUE(written[1].at(key).is_null()) << key;
}

TEST_F(Metrics, AnEvaluationIsALineOfItsOwn) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  const EvalResult result{.nats = 20, .tokens = 10, .bytes = 40, .documents = 1};
  log.evaluation(5, 640, {.all = result});
  const Json line = lines(run_.metrics()).at(0);
  EXPECT_EQ(keys(line), (std::vector<std::string>{"step", "tokens", "eval_loss", "eval_perplexity",
                                                  "eval_bits_per_byte"}));
  EXPECT_EQ(line.at("step"), 5);
  EXPECT_EQ(line.at("tokens"), 640);
  EXPECT_EQ(line.at("eval_loss"), 2);
  EXPECT_DOUBLE_EQ(line.at("eval_perplexity").get<double>(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(line.at("eval_bits_per_byte").get<double>(), 0.5 / std::log(2.0));
}

TEST_F(Metrics, SetsHaveAllFiguresAndLengthsTheirLoss) {
  LogFiles log(run_, state_, /*tensorboard=*/true);
  const auto of = [](double nats) {
    return EvalResult{.nats = nats, .tokens = 10, .bytes = 40, .documents = 1};
  };
  log.evaluation(5, 640,
                 {.all = of(20),
                  .sets = {{"python", of(10)}, {"prose", of(NAN)}},
                  .lengths = {{"length_64", of(5)}, {"length_128", of(15)}}});
  const Json line = lines(run_.metrics()).at(0);
  const std::vector<std::string> figures = {
      "eval_loss",           "eval_perplexity",        "eval_bits_per_byte",
      "eval_loss/python",    "eval_perplexity/python", "eval_bits_per_byte/python",
      "eval_loss/prose",     "eval_perplexity/prose",  "eval_bits_per_byte/prose",
      "eval_loss/length_64", "eval_loss/length_128"};
  std::vector<std::string> expected = {"step", "tokens"};
  expected.insert(expected.end(), figures.begin(), figures.end());
  EXPECT_EQ(keys(line), expected);
  EXPECT_EQ(line.at("eval_loss"), 2);
  EXPECT_EQ(line.at("eval_loss/python"), 1);
  EXPECT_DOUBLE_EQ(line.at("eval_perplexity/python").get<double>(), std::exp(1.0));
  EXPECT_DOUBLE_EQ(line.at("eval_bits_per_byte/python").get<double>(), 0.25 / std::log(2.0));
  EXPECT_TRUE(line.at("eval_loss/prose").is_null());
  EXPECT_EQ(line.at("eval_loss/length_64"), 0.5);
  EXPECT_EQ(line.at("eval_loss/length_128"), 1.5);
  std::string events;
  for (const auto& entry : fs::directory_iterator(run_.tensorboard()))
    events += read_file(entry.path());
  for (const std::string& figure : figures) {
    const std::string tag = "eval/" + figure.substr(std::string("eval_").size());
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
  }
}

TEST_F(Metrics, AnEventSaysWhenWhatAndWhere) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  state_.step = 7;
  state_.batch = 9;
  log.event("skip", state_, "the loss is not finite", {{"skipped_batch", 8}});
  const Json line = lines(run_.events()).at(0);
  EXPECT_EQ(keys(line), (std::vector<std::string>{"time", "event", "step", "batch", "reason",
                                                  "skipped_batch"}));
  EXPECT_EQ(line.at("event"), "skip");
  EXPECT_EQ(line.at("step"), 7);
  EXPECT_EQ(line.at("batch"), 9);
  EXPECT_EQ(line.at("skipped_batch"), 8);
}

// A file name is bytes; a line of JSON is UTF-8.
TEST_F(Metrics, BytesThatAreNoUtf8AreReplaced) {
  LogFiles log(run_, state_, /*tensorboard=*/false);
  log.event("save_failed", state_, "no room in /runs/\xff");
  EXPECT_EQ(lines(run_.events()).at(0).at("reason"), "no room in /runs/\xEF\xBF\xBD");
}

TEST_F(Metrics, ATornLineOfEventsStaysALineByItself) {
  append_file(run_.events(), R"({"time":"2026)", /*sync=*/false);
  LogFiles(run_, state_, /*tensorboard=*/false).event("resume", state_, "");
  // A whole last line is left as it is.
  LogFiles(run_, state_, /*tensorboard=*/false).event("end", state_, "");
  const std::vector<Json> written = lines(run_.events());
  ASSERT_EQ(written.size(), 3U);
  EXPECT_TRUE(written[0].is_discarded());
  EXPECT_EQ(written[1].at("event"), "resume");
  EXPECT_EQ(written[2].at("event"), "end");
}

TEST_F(Metrics, TensorboardIsWrittenWhereItIsAskedFor) {
  LogFiles without(run_, state_, /*tensorboard=*/false);
  without.update(UpdateMetrics());
  EXPECT_FALSE(fs::exists(run_.tensorboard()));
  LogFiles with(run_, state_, /*tensorboard=*/true);
  with.update(UpdateMetrics());
  with.evaluation(1, 64, {.all = {.nats = 20, .tokens = 10, .bytes = 40, .documents = 1}});
  std::string bytes;
  for (const auto& file : fs::directory_iterator(run_.tensorboard())) bytes += read_file(file);
  for (const char* tag : {"train/loss", "train/lr", "eval/loss", "eval/bits_per_byte"})
    EXPECT_NE(bytes.find(tag), std::string::npos) << tag;
}

TEST_F(Metrics, TheStatusNamesTheNewestCheckpointThatIsNotAhead) {
  state_.step = 12;
  state_.tokens = 1536;
  state_.loss = 2.5;
  state_.eval_loss = NAN;
  const std::string before = write_status(run_, "running", state_, std::nullopt);
  EXPECT_EQ(read_file(run_.status()), before + "\n");
  EXPECT_TRUE(Json::parse(before).at("checkpoint").is_null());
  for (const int64_t step : {5, 10, 15}) fs::create_directories(run_.checkpoint(step));
  const Json status = Json::parse(write_status(run_, "stopped", state_, 75));
  EXPECT_EQ(keys(status),
            (std::vector<std::string>{"state", "step", "tokens", "loss", "eval_loss", "exit_code",
                                      "checkpoint", "pid", "host", "updated"}));
  EXPECT_EQ(status.at("checkpoint"), run_.checkpoint(10).string());
  EXPECT_EQ(status.at("state"), "stopped");
  EXPECT_EQ(status.at("step"), 12);
  EXPECT_EQ(status.at("loss"), 2.5);
  EXPECT_TRUE(status.at("eval_loss").is_null());
  EXPECT_EQ(status.at("exit_code"), 75);
  EXPECT_EQ(status.at("pid"), ::getpid());
}

}  // namespace
}  // namespace lmtrain
