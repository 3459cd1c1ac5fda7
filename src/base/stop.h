// Thrown where a signal asked to stop and there is nothing to save (preparing data, evaluating);
// the command turns it into 128+n.
#pragma once

namespace lmtrain {

struct StopRequested {
  int signal = 0;
};

}  // namespace lmtrain
