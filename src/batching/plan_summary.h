// The length of a run, and summaries of its plan. The summaries count rows, sequences, targets and
// batches by length, by cycle and by source. `plan`, the run's summary and metrics show them. An
// epoch of the mixture has each source as often as its weight says.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lmtrain {

// The length of a run; exactly one of the members is above 0. Tokens are targets. The run's state
// keeps the length and each change of it.
struct RunLength {
  int64_t steps = 0;
  int64_t tokens = 0;
  double epochs = 0;
  bool operator==(const RunLength&) const = default;
};

// The point from which a run goes through the rest of its schedules faster or slower, so that they
// end with it.
struct Pace {
  int64_t tokens = 0;  // targets that the run had trained there
  double done = 0;     // RunClock::done() there
  int64_t end = 0;     // targets of the whole run from there on
  bool operator==(const Pace&) const = default;
};

// A change of the run's length. The batches from `first_batch` on are planned anew. Earlier batches
// stay as they are, and the stream of each length goes on where it was.
//
// A person changes the length on resume: schedules then count from the beginning of the run to its
// new end. A run with train.time changes its length on its way: it has a `pace`, its learning rate
// makes no jump, and each length has the part of the rest that the plan before gave it.
struct Replan {
  int64_t first_batch = 0;
  RunLength left;  // steps and tokens: from first_batch on; epochs: of the whole run
  std::optional<Pace> pace = {};
};

// A LengthSummary counts the rows of one length as they are cut from the documents, before a cap
// divides them.
struct LengthSummary {
  int64_t length = 0;
  int64_t rows_per_epoch = 0;
  int64_t sequences_per_epoch = 0;  // sequences in those rows (rows.h)
  int64_t targets_per_epoch = 0;    // positions that train
  int64_t batches = 0;              // in the planned run

  int64_t positions_per_epoch() const { return rows_per_epoch * length; }
  int64_t padding_per_epoch() const { return positions_per_epoch() - targets_per_epoch; }
};

// A CycleSummary describes one cycle of the planned run; schedules without cycles have one.
struct CycleSummary {
  int64_t first_batch = 0;
  std::vector<int64_t> batches;  // by length
};

// A SourceSummary describes one entry of data.train.
struct SourceSummary {
  int32_t source = 0;  // its index there
  double weight = 1;
  int64_t documents = 0;
  int64_t targets = 0;  // in one pass over it
  // Passes over it in the planned run: exact at the end of an epoch, else an expected number.
  double epochs = 0;
};

}  // namespace lmtrain
