// These summaries of a planned run count rows, pieces, targets and batches by length, by cycle and
// by source. `plan`, the run's summary and metrics show them. An epoch of the mixture has each
// source as often as its weight says.
#pragma once

#include <cstdint>
#include <vector>

namespace lmtrain {

// A LengthSummary counts the rows of one length as they are cut from the documents, before a cap
// divides them.
struct LengthSummary {
  int64_t length = 0;
  int64_t rows_per_epoch = 0;
  int64_t pieces_per_epoch = 0;   // parts of documents in those rows
  int64_t targets_per_epoch = 0;  // positions that train
  int64_t batches = 0;            // in the planned run

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
  double epochs = 0;    // passes over it in the planned run
};

}  // namespace lmtrain
