#include "e2e/faults/fault_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

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

FaultServer::FaultServer(const fs::path& folder) : folder_(folder) {
  fs::create_directories(folder_ / "limbo");
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) throw std::runtime_error("no socket");
  socket_ = ends[0];
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
  ProcessOptions options;
  options.env = {{"LD_PRELOAD", LMTRAIN_FAULT_LIBRARY},
                 {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                 {"LD_BIND_NOW", "1"},  // names are looked up once, and not after each fork
                 {"LMTRAIN_FAULT_SERVER", std::to_string(ends[1])}};
  process_.emplace(lmtrain_command({}), on_one_core(options));
  ::close(ends[1]);
  settings_ = {{"LMTRAIN_FAULT_OUT", folder_ / "out"},
               {"LMTRAIN_FAULT_ERR", folder_ / "err"},
               {"LMTRAIN_FAULT_REPORT", folder_ / "report"},
               {"LMTRAIN_FAULT_LIMBO", folder_ / "limbo"},
               {"LMTRAIN_FAULT_SLEEP", "skipped"}};
}

FaultServer::~FaultServer() { ::close(socket_); }

void FaultServer::watch(const std::vector<fs::path>& below, const fs::path& witness) {
  std::vector<std::string> paths(below.begin(), below.end());
  settings_["LMTRAIN_FAULT_BELOW"] = join(paths, ":");
  settings_["LMTRAIN_FAULT_WITNESS"] = witness;
}

int FaultServer::receive(std::optional<double> seconds, pid_t child) {
  pollfd answer{socket_, POLLIN, 0};
  const double most = seconds.value_or(kLongest);
  if (::poll(&answer, 1, static_cast<int>(1000 * most)) == 0) {
    if (!seconds) ADD_FAILURE() << "still running after " << most << " s";
    ::kill(child, SIGKILL);
  }
  int number = 0;
  if (::recv(socket_, &number, sizeof number, 0) != sizeof number)
    throw std::runtime_error("the fork server has ended: " + process_->err());
  return number;
}

ProcessResult FaultServer::run(const std::vector<std::string>& arguments, const Fault& fault,
                               std::optional<double> kill_after) {
  for (const auto& entry : fs::directory_iterator(folder_ / "limbo")) fs::remove_all(entry);
  for (const char* name : {"out", "err", "report", "report.witness"}) fs::remove(folder_ / name);
  std::map<std::string, std::string> settings = settings_;
  settings["LMTRAIN_FAULT_CALL"] = std::to_string(fault.call);
  settings["LMTRAIN_FAULT_HOW"] = fault.how;
  settings["LMTRAIN_FAULT_TIMES"] = std::to_string(fault.times);
  std::string request;
  for (const auto& [name, value] : settings) request += name + "=" + value + '\0';
  request += '\0';
  for (const std::string& word : lmtrain_command(arguments)) request += word + '\0';
  if (::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) < 0)
    throw std::runtime_error("the fork server has ended: " + process_->err());
  const pid_t child = receive(std::nullopt, 0);
  const int status = receive(kill_after, child);
  ProcessResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = read_text(folder_ / "out");
  result.err = read_text(folder_ / "err");
  return result;
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
