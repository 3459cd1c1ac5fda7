// The log of one of several processes that work together: rank 0 says everything, every other rank
// says warnings and errors alone, with its number. Call before the first line.
#pragma once

namespace lmtrain {

void log_as_rank(int rank);

// While an object of this class exists the process logs errors alone, as another process of its
// machine says the same notes and warnings. Not to be nested.
class WarningsMuted {
 public:
  WarningsMuted();
  WarningsMuted(const WarningsMuted&) = delete;
  WarningsMuted& operator=(const WarningsMuted&) = delete;
  ~WarningsMuted();
};

}  // namespace lmtrain
