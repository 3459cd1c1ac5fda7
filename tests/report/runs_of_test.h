// Records of runs that tests make by hand.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain::testing {

// `count` updates of 100 tokens and half a second each; loss 10 / step, one length.
inline UpdateColumns falling_updates(size_t count) {
  UpdateColumns updates;
  for (size_t i = 1; i <= count; ++i) {
    const auto step = static_cast<double>(i);
    updates.step.push_back(step);
    updates.tokens.push_back(100 * step);
    updates.elapsed.push_back(0.5 * step);
    updates.loss.push_back(10 / step);
    updates.grad_norm.push_back(1);
    updates.lr.push_back(1e-3);
    updates.seq_len.push_back(64);
    updates.tokens_per_second.push_back(200);
    updates.mfu.push_back(std::nan(""));
    updates.communication_share.push_back(std::nan(""));
  }
  return updates;
}

// A run of 20 updates whose one evaluation gave `eval_loss`.
inline RunRecord finished_run(const std::string& label, const nlohmann::json& settings,
                              double eval_loss) {
  RunRecord run;
  run.folder = "/runs/" + label;
  run.label = label;
  run.settings = settings;
  run.state = "done";
  run.checkpoint = run.folder.string() + "/checkpoints/step_00000020";
  run.curves = curves_of(falling_updates(20), 100);
  run.evaluations = {{"eval_loss", {20}, {2000}, {10}, {eval_loss}}};
  run.step = 20;
  run.tokens = 2000;
  run.elapsed = 10;
  run.loss = 0.5;
  return run;
}

}  // namespace lmtrain::testing
