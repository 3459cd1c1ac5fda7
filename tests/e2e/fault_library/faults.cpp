#include "e2e/fault_library/faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "e2e/fault_library/undo_log.h"
#include "e2e/fork_library/hooks.h"

namespace lmtrain::faults {
namespace {

namespace fs = std::filesystem;

enum class How { kError, kShort, kKill, kPowerLoss };

struct State {
  std::vector<std::string> below;
  long call = 0, times = 1, count = 0;
  How how = How::kError;
  int error = EIO;
  std::string report, trace, witness;
  bool ignores_sync = false, skips_sleep = false;

  Kind failed_kind = Kind::kOpen;
  std::string failed_path;        // of the first call that failed; empty: none yet
  std::set<std::string> refused;  // paths
  std::string calls;              // the trace
};

std::unique_ptr<State>& slot() {
  static auto* one = new std::unique_ptr<State>;  // outlives whatever calls at the end
  return *one;
}

State& state() {
  if (!slot()) configure();
  return *slot();
}

thread_local int own_depth = 0;

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

long number_of(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

const char* name_of(Kind kind) {
  constexpr std::array<const char*, 16> kNames = {
      "open",  "create", "opendir", "readdir",  "read",   "stat", "mmap",   "flock",
      "close", "write",  "fsync",   "truncate", "rename", "link", "unlink", "mkdir"};
  return kNames[static_cast<size_t>(kind)];
}

void write_whole(const std::string& path, const std::string& text) {
  const Own own;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  if (::write(fd, text.data(), text.size()) < 0) ::perror("the report of the fault library");
  ::close(fd);
}

void write_report() {
  const State& all = state();
  if (!all.report.empty()) {
    std::string text = std::to_string(all.count) + "\n" +
                       (all.failed_path.empty() ? "none" : name_of(all.failed_kind)) + "\n";
    for (const std::string& path : all.refused) text += path + "\n";
    write_whole(all.report, text);
  }
  if (!all.trace.empty()) write_whole(all.trace, all.calls);
}

void lose_power() {
  const State& all = state();
  const Own own;
  std::error_code ignored;
  if (!all.witness.empty())
    fs::copy_file(all.witness, all.report + ".witness", fs::copy_options::overwrite_existing,
                  ignored);
  undo_log().carry_out();
}

[[noreturn]] void end_process() {
  write_report();
  if (state().how == How::kPowerLoss) lose_power();
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

bool takes_descriptor(Kind kind) {
  return kind == Kind::kOpen || kind == Kind::kCreate || kind == Kind::kOpenFolder;
}

bool takes_room(Kind kind) {
  return kind == Kind::kCreate || kind == Kind::kWrite || kind == Kind::kRename ||
         kind == Kind::kLink || kind == Kind::kMakeFolder;
}

// Whether a call after the first that failed fails too.
bool fails_again(const State& all, Kind kind, const std::string& path) {
  if (all.failed_path.empty() || all.times == 0) return false;
  if (all.how == How::kError && all.error == ENOSPC) return takes_room(kind);
  if (all.how == How::kError && all.error == EMFILE) return takes_descriptor(kind);
  return kind == all.failed_kind && path == all.failed_path;
}

__attribute__((destructor)) void at_the_end() { end_of_program(); }

}  // namespace

void configure() {
  slot() = std::make_unique<State>();
  State& all = *slot();
  const std::string below = text_of("LMTRAIN_FAULT_BELOW");
  for (size_t begin = 0; begin < below.size();) {
    const size_t end = std::min(below.find(':', begin), below.size());
    all.below.push_back(below.substr(begin, end - begin));
    begin = end + 1;
  }
  all.call = number_of("LMTRAIN_FAULT_CALL", 0);
  all.times = number_of("LMTRAIN_FAULT_TIMES", 1);
  const std::string how = text_of("LMTRAIN_FAULT_HOW");
  if (how == "short") all.how = How::kShort;
  if (how == "kill") all.how = How::kKill;
  if (how == "power") all.how = How::kPowerLoss;
  if (all.how == How::kError) all.error = static_cast<int>(number_of("LMTRAIN_FAULT_HOW", EIO));
  all.report = text_of("LMTRAIN_FAULT_REPORT");
  all.trace = text_of("LMTRAIN_FAULT_TRACE");
  all.witness = text_of("LMTRAIN_FAULT_WITNESS");
  all.ignores_sync = text_of("LMTRAIN_FAULT_FSYNC") == "ignored";
  all.skips_sleep = text_of("LMTRAIN_FAULT_SLEEP") == "skipped";
  undo_log().begin(text_of("LMTRAIN_FAULT_LIMBO"));
}

std::recursive_mutex& lock() {
  static auto* one = new std::recursive_mutex;
  return *one;
}

void end_of_program() {
  if (state().below.empty()) return;
  const std::lock_guard hold(lock());
  if (state().call < 0 && (state().how == How::kKill || state().how == How::kPowerLoss))
    end_process();
  write_report();
}

bool is_watched(const std::string& path) {
  for (const std::string& folder : state().below) {
    if (path.compare(0, folder.size(), folder) == 0 &&
        (path.size() == folder.size() || path[folder.size()] == '/'))
      return true;
  }
  return false;
}

bool keeps_undos() { return state().how == How::kPowerLoss && !Own::is_active(); }
bool ignores_sync() { return state().ignores_sync; }
bool skips_sleep() { return state().skips_sleep; }

Verdict judge(Kind kind, const std::string& path) {
  if (Own::is_active() || path.empty() || !is_watched(path)) return Verdict::kGoOn;
  const std::lock_guard hold(lock());
  State& all = state();
  ++all.count;
  if (!all.trace.empty()) all.calls += std::string(name_of(kind)) + " " + path + "\n";
  const bool is_chosen = all.count == all.call;
  if (!is_chosen && !fails_again(all, kind, path)) return Verdict::kGoOn;
  const bool moves_bytes = kind == Kind::kRead || kind == Kind::kWrite;
  if (all.how == How::kShort && !moves_bytes) return Verdict::kGoOn;
  all.refused.insert(path);
  if (is_chosen) {
    all.failed_kind = kind;
    all.failed_path = path;
  }
  if (all.how == How::kKill || all.how == How::kPowerLoss) end_process();
  if (is_chosen) write_report();
  if (all.times > 0) --all.times;
  if (all.how == How::kShort) return Verdict::kShort;
  errno = all.error;
  return Verdict::kRefuse;
}

Own::Own() { ++own_depth; }
Own::~Own() { --own_depth; }
bool Own::is_active() { return own_depth > 0; }

}  // namespace lmtrain::faults

extern "C" {

void lmtrain_before_main() { lmtrain::faults::configure(); }

// Ends as the program does, but for the destructors of its libraries, which touch no file and take
// longer than all else.
void lmtrain_after_main(int code) {
  std::fflush(nullptr);
  lmtrain::faults::end_of_program();
  ::_exit(code);
}
}
