// The log of one of several processes that work together: rank 0 says everything, every other rank
// says warnings and errors alone, with its number. Call before the first line.
#pragma once

namespace lmtrain {

void log_as_rank(int rank);

}  // namespace lmtrain
