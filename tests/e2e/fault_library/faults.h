// Which call on a watched file fails, and how: this counts the calls of the program, and judges
// each before it is carried out. The settings come from the environment:
//
//   LMTRAIN_FAULT_BELOW    folders and files that are watched, separated by ":"
//   LMTRAIN_FAULT_CALL     the call that fails, from 1; 0: none; -1: the end of the program
//   LMTRAIN_FAULT_HOW      an errno; "short": fewer bytes than asked for; "kill": SIGKILL before
//   the
//                          call; "power": the same, and what was not synced is lost (undo_log.h)
//   LMTRAIN_FAULT_TIMES    how many calls fail; -1: all from then on. ENOSPC and EMFILE concern all
//                          calls that take room, or a descriptor; others those of the same kind on
//                          the same path
//   LMTRAIN_FAULT_REPORT   a file: the number of calls, the kind of the first that failed, then the
//                          paths of all that failed, a line each
//   LMTRAIN_FAULT_TRACE    a file: kind and path of every call, a line each
//   LMTRAIN_FAULT_LIMBO    a folder for what has lost its name and may come back, for "power"
//   LMTRAIN_FAULT_WITNESS  a file that is copied beside the report (.witness) when power is lost
//   LMTRAIN_FAULT_FSYNC    "ignored": fsync does nothing and says that all is well
//   LMTRAIN_FAULT_SLEEP    "skipped": waiting takes no time
//
// Any thread may call all of it.
#pragma once

#include <mutex>
#include <string>

namespace lmtrain::faults {

enum class Kind {
  kOpen,
  kCreate,  // open that may make the file or cut it
  kOpenFolder,
  kReadFolder,
  kRead,
  kStat,
  kMap,
  kLock,
  kClose,
  kWrite,
  kSync,
  kTruncate,
  kRename,
  kLink,
  kRemove,  // unlink and rmdir
  kMakeFolder
};

enum class Verdict { kGoOn, kRefuse /* errno is set */, kShort };

// Reads the environment; counts from 0 again.
void configure();

// A call that changes files holds it from before it is judged until it is done, so that none is
// under way when power is lost.
std::recursive_mutex& lock();

// Says what is to become of a call on this path, which is the next that is counted. Does not return
// where the program is to be killed. A path that is not watched is not counted.
Verdict judge(Kind kind, const std::string& path);

// Writes the report. Does not return where power is to be lost at the end of the program.
void end_of_program();

bool is_watched(const std::string& path);
bool keeps_undos();
bool ignores_sync();
bool skips_sleep();

// While it lives, the calls of its thread are the library's own: neither counted nor undone.
class Own {
 public:
  Own();
  ~Own();
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  static bool is_active();
};

}  // namespace lmtrain::faults
