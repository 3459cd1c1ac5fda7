#include "schedule/run_end.h"

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

RunEnd run_end(Stop why, bool is_evaluated, int signal) {
  if (has_all_steps(why) && is_evaluated)
    return {/*done=*/true, why == Stop::kEarlyStop ? "early stop" : "done", 0};
  if (signal != 0) return {/*done=*/false, str("signal ", signal), 128 + signal};
  return {/*done=*/false, "max_time", kExitMaxTime};
}

}  // namespace lmtrain
