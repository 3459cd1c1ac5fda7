// Of several processes that work together rank 0 prints everything. Every other rank prints only
// warnings and errors, with its number. A line that is not printed is not written to the log file
// either.
#pragma once

namespace lmtrain {

// Sets the rank of this process. Call it before the first line is printed.
void log_as_rank(int rank);

// While an object of this class exists, notes and warnings are dropped, because another process or
// call prints the same ones. At most one object may exist.
class WarningsMuted {
 public:
  WarningsMuted();
  WarningsMuted(const WarningsMuted&) = delete;
  WarningsMuted& operator=(const WarningsMuted&) = delete;
  ~WarningsMuted();
};

}  // namespace lmtrain
