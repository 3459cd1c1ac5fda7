#include "e2e/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <thread>

#include "base/elapsed.h"

namespace lmtrain::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::string content(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  ssize_t got = 0;
  while ((got = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

std::vector<std::string> environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

void limit(int resource, std::optional<rlim_t> value) {
  if (!value) return;
  const rlimit both{*value, *value};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

}  // namespace

void sleep_ms(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

std::ostream& operator<<(std::ostream& out, const ProcessResult& result) {
  return out << "exit code " << result.exit_code << ", signal " << result.signal << "\nstdout:\n"
             << result.out << "\nstderr:\n"
             << result.err;
}

Process::Process(const std::vector<std::string>& command, const ProcessOptions& options)
    // Files in memory never block the writer, and can be read while it runs.
    : out_(::memfd_create("stdout", MFD_CLOEXEC)), err_(::memfd_create("stderr", MFD_CLOEXEC)) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = environment(options.env);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(variables);
  const std::string cwd = options.cwd.empty() ? LMTRAIN_SOURCE_DIR : options.cwd.string();
  if (options.out_terminal) out_terminal_ = std::make_unique<Terminal>(*options.out_terminal);
  if (options.err_terminal) err_terminal_ = std::make_unique<Terminal>(*options.err_terminal);
  const int out = out_terminal_ ? out_terminal_->program_end() : out_;
  const int err = err_terminal_ ? err_terminal_->program_end() : err_;
  pid_ = options.server != nullptr ? options.server->start(command, variables, cwd, out, err)
                                   : ::fork();
  if (pid_ == 0) {
    // Only calls that are safe after fork, until exec.
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    std::signal(SIGHUP, SIG_DFL);  // which nohup may have told this process to ignore
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, options.file_size);
    limit(RLIMIT_AS, options.address_space);
    if (::chdir(cwd.c_str()) == 0) ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  for (const auto& terminal : {out_terminal_.get(), err_terminal_.get()}) {
    if (terminal != nullptr) terminal->close_program_end();
  }
}

Process::~Process() {
  if (!ended_) {
    send(SIGKILL);
    reap(/*block=*/true);
  }
  ::close(out_);
  ::close(err_);
}

void Process::send(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

bool Process::reap(bool block) {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, block ? 0 : WNOHANG) == pid_;
  return ended_;
}

bool Process::running() { return !reap(/*block=*/false); }

bool Process::catches(int signal) const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string word; status >> word;) {
    if (word != "SigCgt:") continue;
    uint64_t mask = 0;
    status >> std::hex >> mask;
    return (mask >> (signal - 1) & 1U) != 0;
  }
  return false;
}

bool Process::wait_until(const std::function<bool()>& condition) {
  constexpr double kLongest = 60;
  for (const auto begin = Clock::now(); seconds_since(begin) < kLongest; sleep_ms(1)) {
    if (condition()) return true;
    if (!running()) return condition();
  }
  return false;
}

ProcessResult Process::wait(double seconds) {
  for (const auto begin = Clock::now(); running(); sleep_ms(1)) {
    if (seconds_since(begin) < seconds) continue;
    ADD_FAILURE() << "still running after " << seconds << " s\n" << err();
    send(SIGKILL);
    reap(/*block=*/true);
  }
  for (const auto& terminal : {out_terminal_.get(), err_terminal_.get()}) {
    if (terminal != nullptr) terminal->wait();
  }
  ProcessResult result;
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.out = out();
  result.err = err();
  return result;
}

std::string Process::out() const { return out_terminal_ ? out_terminal_->text() : content(out_); }
std::string Process::err() const { return err_terminal_ ? err_terminal_->text() : content(err_); }

}  // namespace lmtrain::testing
