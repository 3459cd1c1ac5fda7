// Judges whether a step may be applied: its loss and gradient norm must be finite and, where the
// config asks for it, no spike.
//
// A spike is a loss or gradient norm more than spike_sigma standard deviations above the mean of
// its last guard.window values; the deviation counts as at least 0.1 % of the mean. Each sequence
// length has a window of its own (loss depends on the length), and there are no spikes until it is
// half full. Only finite values of applied steps enter it. The windows are plain data in
// state.json, so a resumed run judges alike. optim/anomaly_policy.h decides what is done about an
// anomaly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Holds losses and gradient norms of the applied updates at one sequence length, oldest first; at
// most guard.window of each.
struct GuardWindow {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  bool operator==(const GuardWindow&) const = default;
};

struct GuardState {
  std::map<int64_t, GuardWindow> windows;  // by sequence length; empty while on_spike is off
  int64_t skips_in_a_row = 0;              // since the last update
  std::vector<int64_t> excluded_batches;   // batches not trained on any more, after rollbacks
  int64_t rollback_step = 0;               // the checkpoint that was last gone back to
  int64_t rollbacks_in_a_row = 0;          // to that checkpoint
  bool operator==(const GuardState&) const = default;

  bool excludes(int64_t batch) const;
};

enum class Anomaly { kNone, kNotFinite, kSpike };

struct Verdict {
  Anomaly anomaly = Anomaly::kNone;
  std::string reason;  // for people
};

// Says whether the loss or the gradient norm of a step of this length is an anomaly, and why. A
// rule whose policy is "off" finds none. The function is pure.
Verdict judge_step(const GuardConfig& config, const GuardState& state, int64_t length, double loss,
                   double grad_norm);
// Records an applied step: its values, where both are finite, enter the window of its length, and
// skips_in_a_row becomes 0. Where on_spike is off, all windows are emptied instead.
void note_update(const GuardConfig& config, GuardState& state, int64_t length, double loss,
                 double grad_norm);

}  // namespace lmtrain
