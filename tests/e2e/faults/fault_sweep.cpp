#include "e2e/faults/fault_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>

#include "base/elapsed.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPowerLoss = "power";

bool is_one_of(const std::string& kind, std::initializer_list<const char*> kinds) {
  return std::any_of(kinds.begin(), kinds.end(), [&](const char* one) { return kind == one; });
}

std::string kind_of(const std::string& call) { return call.substr(0, call.find(' ')); }

// How the call with this number may fail. Each call meets every way; once, three times and for good
// take turns from call to call.
std::vector<Fault> faults_of(const std::string& kind, long call) {
  // close does its work in any case, so it is refused once.
  if (kind == "close") return {{call, std::to_string(EIO), 1}};
  std::vector<std::string> ways = {std::to_string(EIO), std::to_string(ESTALE),
                                   std::to_string(EINTR)};
  if (is_one_of(kind, {"open", "create", "opendir"})) ways.push_back(std::to_string(EMFILE));
  if (is_one_of(kind, {"create", "write", "fsync", "rename", "link", "mkdir", "truncate"}))
    ways.push_back(std::to_string(ENOSPC));
  if (is_one_of(kind, {"read", "write"})) ways.emplace_back("short");
  constexpr std::array<int, 3> kTimes = {1, 3, -1};
  std::vector<Fault> faults;
  for (size_t i = 0; i < ways.size(); ++i)
    faults.push_back({call, ways[i], kTimes[(static_cast<size_t>(call) + i) % kTimes.size()]});
  // Before another call a kill finds the files as before the next of these.
  const bool changes =
      is_one_of(kind, {"create", "write", "rename", "link", "mkdir", "truncate", "unlink"});
  if (changes) faults.push_back({call, "kill", 1});
  if (changes || kind == "fsync") faults.push_back({call, kPowerLoss, 1});
  return faults;
}

// A message names a file or the folder that it lies in, or the tree that could not be removed.
bool names_it(const std::string& message, const fs::path& path) {
  const auto has = [&](const std::string& part) { return message.find(part) != std::string::npos; };
  if (has(path.string()) || has(path.parent_path().string())) return true;
  fs::path tree = path.parent_path();
  while (tree.has_relative_path() && !has("cannot remove " + tree.string() + ":"))
    tree = tree.parent_path();
  return tree.has_relative_path();
}

bool names_one(const std::string& message, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return names_it(message, path); });
}

// Indices of the faults to try.
std::vector<size_t> chosen(size_t count, size_t sample) {
  size_t first = count / (4 * sample);
  size_t step = std::max<size_t>(1, count / sample);
  while (step % 2 == 0 || step % 3 == 0 || step % 5 == 0) ++step;  // all kinds and ways are met
  if (const char* part = std::getenv("LMTRAIN_FAULTS")) {
    char* slash = nullptr;
    first = std::strtoul(part, &slash, 10) - 1;
    step = std::strtoul(slash + 1, nullptr, 10);
  }
  std::vector<size_t> indices;
  for (size_t i = first; i < count; i += step) indices.push_back(i);
  return indices;
}

}  // namespace

std::string lost_checkpoint(const RunDir& run, const std::string& events) {
  std::optional<int64_t> saved;
  std::istringstream lines(events);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object() && event.value("event", "") == "save")
      saved = event.at("step").get<int64_t>();
  }
  if (!saved || fs::exists(run.checkpoint(*saved) / "manifest.json")) return "";
  return run.checkpoint(*saved).string();
}

FaultSweep::FaultSweep(FaultServer& server, const fs::path& below, Scenario scenario)
    : server_(server), below_(below), scenario_(std::move(scenario)) {
  server_.watch({below_}, scenario_.run ? scenario_.run->folder() / "events.jsonl" : fs::path());
}

std::vector<FaultSweep::Planned> FaultSweep::plan() {
  scenario_.begin();
  const std::vector<std::string> calls = server_.calls_of(scenario_.command);
  std::vector<Planned> all;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string kind = kind_of(calls[i]);
    ++counts_[kind].calls;
    for (const Fault& fault : faults_of(kind, static_cast<long>(i) + 1))
      all.push_back({fault, calls[i]});
  }
  all.push_back({{.call = -1, .how = kPowerLoss}, "end"});
  return all;
}

void FaultSweep::run(size_t sample) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Planned> all = plan();
  ASSERT_GT(all.size(), 100U);
  for (const size_t i : chosen(all.size(), sample)) check(all[i]);
  print();
  std::cout << scenario_.name << " seconds " << seconds_since(begin) << std::endl;
}

void FaultSweep::check(const Planned& planned) {
  const Fault& fault = planned.fault;
  SCOPED_TRACE(scenario_.name + ": call " + std::to_string(fault.call) + ", " + fault.how +
               ", times " + std::to_string(fault.times) + ", planned as " + planned.call);
  scenario_.begin();
  const ProcessResult result = server_.run(scenario_.command, fault);
  const FaultReport report = server_.report();
  SCOPED_TRACE("it was " + report.kind + " " +
               (report.refused.empty() ? "" : report.refused.front()));
  Counts& counts = counts_[kind_of(planned.call)];
  ++counts.faults;
  if (result.signal == SIGKILL && result.signal != 0) {
    ++counts.killed;
    check_killed(report.witness);
  } else if (result.exit_code == 0) {
    ++counts.same;
    EXPECT_EQ(scenario_.difference(result), "") << result;
    return;
  } else {
    ++counts.refused;
    check_refused(fault, result);
  }
  go_on();
}

void FaultSweep::check_refused(const Fault& fault, const ProcessResult& result) const {
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_NE(fault.how, "short") << "fewer bytes than asked for are no error" << result;
  const char* cause = std::strerror(std::atoi(fault.how.c_str()));
  EXPECT_NE(result.err.find(cause), std::string::npos) << cause << result;
  EXPECT_TRUE(names_one(result.err, server_.report().refused)) << result;
}

void FaultSweep::check_killed(const std::string& events) const {
  if (!scenario_.run) return;
  const fs::path file = scenario_.run->folder() / "events.jsonl";
  EXPECT_EQ(lost_checkpoint(*scenario_.run, events.empty() ? read_text(file) : events), "");
}

void FaultSweep::go_on() {
  const ProcessResult again = server_.run(scenario_.next_command());
  EXPECT_EQ(again.exit_code, 0) << "again: " << again;
  EXPECT_EQ(again.err.find("damaged checkpoint"), std::string::npos) << "again: " << again;
  EXPECT_EQ(scenario_.difference(again), "") << "after it went on: " << again;
}

void FaultSweep::print() const {
  for (const auto& [kind, counts] : counts_) {
    std::cout << "faults of " << scenario_.name << ": " << kind << " calls " << counts.calls
              << " faults " << counts.faults << " same " << counts.same << " refused "
              << counts.refused << " killed " << counts.killed << std::endl;
  }
}

void FaultSweep::kill_at_random(int kills, uint64_t seed) {
  std::mt19937_64 random(seed);
  scenario_.begin();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(server_.run(scenario_.command).exit_code, 0);
  std::uniform_real_distribution<double> moment(0, 1.1 * seconds_since(begin));
  int killed = 0;
  int ends = 0;
  while (killed < kills) {
    SCOPED_TRACE(scenario_.name + ": end " + std::to_string(ends) + " of seed " +
                 std::to_string(seed));
    scenario_.begin();
    ProcessResult result = server_.run(scenario_.command, {}, moment(random));
    for (; result.signal == SIGKILL && killed < kills; ++killed) {
      check_killed("");
      result = server_.run(scenario_.next_command(), {}, moment(random));
    }
    if (result.signal == SIGKILL) result = server_.run(scenario_.next_command());
    ++ends;
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(scenario_.difference(result), "") << result;
  }
  std::cout << "kills of " << scenario_.name << ": " << killed << " kills, " << ends << " ends"
            << std::endl;
}

}  // namespace lmtrain::testing
