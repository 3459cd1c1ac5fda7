#include "device/profile.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

void phase(const char* name, int milliseconds) {
  RECORD_USER_SCOPE(name);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(PhaseTimes, SumsByNameWhileItListens) {
  phase("before", 1);
  const PhaseTimes times(at::kCPU);
  phase("a", 20);
  phase("b", 1);
  phase("a", 20);
  at::ones({4}).sum();  // an operator is no phase
  ASSERT_EQ(times.seconds().size(), 2U);
  EXPECT_GE(times.seconds().at("a"), 0.040);
  EXPECT_GE(times.seconds().at("b"), 0.001);
}

// As autograd does it on a GPU, whose backward has a thread of its own.
TEST(PhaseTimes, ListensToAThreadThatWorksForIt) {
  const PhaseTimes times(at::kCPU);
  const at::ThreadLocalState state;
  std::thread([&state] {
    const at::ThreadLocalStateGuard guard(state);
    phase("there", 1);
  }).join();
  EXPECT_EQ(times.seconds().count("there"), 1U);
}

TEST(PhaseTimes, OneAfterAnother) {
  {
    const PhaseTimes times(at::kCPU);
    phase("a", 1);
    EXPECT_THROW(PhaseTimes(at::kCPU), c10::Error);
  }
  const PhaseTimes times(at::kCPU);
  EXPECT_TRUE(times.seconds().empty());
  phase("b", 1);
  EXPECT_EQ(times.seconds().count("b"), 1U);
}

std::vector<Json> named(const Json& trace, const std::string& name) {
  std::vector<Json> events;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("name") == name) events.push_back(event);
  }
  return events;
}

TEST(Trace, HasScopesAndTheOperatorsInside) {
  const at::Tensor a = at::ones({3, 4});
  const Json trace = Json::parse(record_trace(at::kCPU, [&] {
    RECORD_USER_SCOPE("a \"phase\"\n");
    at::mm(a, a.t());
  }));
  const std::vector<Json> phases = named(trace, "a \"phase\" ");
  const std::vector<Json> products = named(trace, "aten::mm");
  ASSERT_EQ(phases.size(), 1U);
  ASSERT_EQ(products.size(), 1U);
  EXPECT_EQ(products[0].at("args").at("shapes"), Json({{3, 4}, {4, 3}}));
  const auto begin = [](const Json& event) { return event.at("ts").get<double>(); };
  const auto end = [&](const Json& event) { return begin(event) + event.at("dur").get<double>(); };
  EXPECT_GE(begin(phases[0]), 0);
  EXPECT_LE(begin(phases[0]), begin(products[0]));
  EXPECT_LE(end(products[0]), end(phases[0]));
  EXPECT_EQ(phases[0].at("tid"), products[0].at("tid"));
  EXPECT_EQ(phases[0].at("cat"), "user_annotation");
  EXPECT_EQ(products[0].at("cat"), "cpu_op");
}

TEST(Trace, EndsWithAnExceptionAndCanBeginAgain) {
  EXPECT_THROW(record_trace(at::kCPU, [] { throw std::runtime_error("x"); }), std::runtime_error);
  const Json trace = Json::parse(record_trace(at::kCPU, [] { at::ones({2}).exp(); }));
  EXPECT_EQ(named(trace, "aten::exp").size(), 1U);
  EXPECT_TRUE(named(trace, "aten::mm").empty());
}

}  // namespace

}  // namespace lmtrain
