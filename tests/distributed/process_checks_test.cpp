#include "distributed/process_checks.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "distributed/divided_config.h"

namespace lmtrain {
namespace {

// Returns the message with which a check refuses so many processes; empty where it allows them.
std::string refusal_of(const std::function<void(int)>& check, int num_processes) {
  try {
    check(num_processes);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
}

TEST(ProcessChecks, ExactSumsWantAPowerOfTwoUpToTheParts) {
  ParallelConfig config;
  config.parts = 4;
  const auto check = [&](int num_processes) { check_processes(config, num_processes); };
  config.sum = ParallelSum::kFast;
  for (const int count : {1, 2, 3, 8}) EXPECT_EQ(refusal_of(check, count), "") << count;
  config.sum = ParallelSum::kExact;
  for (const int count : {1, 2, 4}) EXPECT_EQ(refusal_of(check, count), "") << count;
  for (const int count : {3, 8}) {
    EXPECT_NE(refusal_of(check, count).find("a power of two, up to parallel.parts (4)"),
              std::string::npos)
        << count;
  }
}

TEST(ProcessChecks, EachSettingThatDividedStateRulesOutIsNamed) {
  Config possible = testing::divided_config();
  possible.device = "cpu";
  possible.model.activation_checkpointing = true;
  possible.parallel.shard = ParallelShard::kParameters;
  struct Case {
    ParallelShard shard;
    std::function<void(Config&)> change;
    const char* message;
  };
  const Case cases[] = {
      {ParallelShard::kParameters, [](Config& c) { c.model.activation_checkpointing = false; },
       "set model.activation_checkpointing to true"},
      {ParallelShard::kParameters, [](Config& c) { c.log.samples.emplace(); },
       "leave log.samples out"},
      {ParallelShard::kParameters, [](Config& c) { c.eval.tasks = "tasks"; },
       "leave eval.tasks out"},
  };
  const auto check_of = [](const Config& config) {
    return [&config](int num_processes) { check_division(config, num_processes); };
  };
  EXPECT_EQ(refusal_of(check_of(possible), 2), "");
  for (const Case& tried : cases) {
    Config config = possible;
    config.parallel.shard = tried.shard;
    tried.change(config);
    EXPECT_NE(refusal_of(check_of(config), 2).find(tried.message), std::string::npos)
        << tried.message;
    EXPECT_EQ(refusal_of(check_of(config), 1), "") << "one process divides nothing";
    config.parallel.shard = ParallelShard::kNone;
    EXPECT_EQ(refusal_of(check_of(config), 2), "") << tried.message;
  }
}

}  // namespace
}  // namespace lmtrain
