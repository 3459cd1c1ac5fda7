#include "e2e/faults/fault_server.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/elapsed.h"
#include "base/text.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr double kLongest = 30;  // seconds

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

FaultServer::FaultServer(const fs::path& folder)
    : folder_(folder),
      settings_(on_one_core({}).env),
      server_(lmtrain_binary(), LMTRAIN_FAULT_LIBRARY, settings_) {
  fs::create_directories(folder_ / "limbo");
  settings_["LMTRAIN_FAULT_REPORT"] = folder_ / "report";
  settings_["LMTRAIN_FAULT_LIMBO"] = folder_ / "limbo";
  settings_["LMTRAIN_FAULT_SLEEP"] = "skipped";
}

void FaultServer::watch(const std::vector<fs::path>& below, const fs::path& witness) {
  std::vector<std::string> paths(below.begin(), below.end());
  settings_["LMTRAIN_FAULT_BELOW"] = join(paths, ":");
  settings_["LMTRAIN_FAULT_WITNESS"] = witness;
}

ProcessResult FaultServer::run(const std::vector<std::string>& arguments, const Fault& fault,
                               std::optional<double> kill_after) {
  for (const auto& entry : fs::directory_iterator(folder_ / "limbo")) fs::remove_all(entry);
  for (const char* name : {"report", "report.witness"}) fs::remove(folder_ / name);
  ProcessOptions options;
  options.env = settings_;
  options.env["LMTRAIN_FAULT_CALL"] = std::to_string(fault.call);
  options.env["LMTRAIN_FAULT_HOW"] = fault.how;
  options.env["LMTRAIN_FAULT_TIMES"] = std::to_string(fault.times);
  options.server = &server_;
  Process process(lmtrain_command(arguments), options);
  if (kill_after) {
    const auto begin = std::chrono::steady_clock::now();
    while (process.running() && seconds_since(begin) < *kill_after) sleep_ms(1);
    process.send(SIGKILL);
  }
  return process.wait(kLongest);
}

FaultReport FaultServer::report() const {
  FaultReport report;
  const std::vector<std::string> lines = lines_of(folder_ / "report");
  if (lines.size() < 2) return report;
  report.calls = std::stol(lines[0]);
  report.kind = lines[1];
  report.refused.assign(lines.begin() + 2, lines.end());
  report.witness = read_text(folder_ / "report.witness");
  return report;
}

std::vector<std::string> FaultServer::calls_of(const std::vector<std::string>& arguments) {
  settings_["LMTRAIN_FAULT_TRACE"] = folder_ / "trace";
  const ProcessResult result = run(arguments);
  settings_.erase("LMTRAIN_FAULT_TRACE");
  if (result.exit_code != 0) throw std::runtime_error("a command without a fault: " + result.err);
  return lines_of(folder_ / "trace");
}

}  // namespace lmtrain::testing
