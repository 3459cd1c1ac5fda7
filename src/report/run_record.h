// Reads what a run folder says about its run, for a report. It takes no lock and changes nothing,
// so a run may be in progress; then the record is of the moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/expected_curve.h"
#include "report/metrics_series.h"

namespace lmtrain {

// Reads events.jsonl of a run (docs/formats/run_folder.md) for people: each event that is no matter
// of routine, with one sentence that says what happened.
struct RunEvent {
  std::string time;  // as in the file
  std::string kind;  // "skip", "rollback", ...
  double step = 0;   // where it stands on the curves: updates applied before it
  std::string text;  // what is known beside these; may be empty
};

// A text that the model wrote behind a prompt at an evaluation.
struct SampleEvent {
  double step = 0;
  std::string prompt, text;
};

struct RunEvents {
  // In the order of the file: all but saves, samples, and the plain beginning and end of a run. Of
  // each kind at most kMostEventsOfAKind are here, the first ones and the last ones.
  std::vector<RunEvent> events;
  // By ascending step. Where a run has evaluated a step again, after a resume, its last texts are
  // here. Of many the first ones and the last ones are here, likewise.
  std::vector<SampleEvent> samples;
  std::map<std::string, int64_t> counts;  // of all kinds
  std::string device, precision;          // as of the last start or resume; empty: unknown
  std::optional<double> peak_memory;      // bytes; the largest that an event names
};
inline constexpr size_t kMostEventsOfAKind = 400;

// A missing file has no events, and lines that are damaged are skipped. Throws Error(kIo) or
// Error(kData) when the file cannot be read or is no file.
RunEvents read_run_events(const std::filesystem::path& file);

// Names the files to read. All but `config` may be missing.
struct RunFiles {
  std::filesystem::path folder, config, status, metrics, events;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string label;  // run_record.h; empty until then
  // config.json without its identity and digest; an empty object where it cannot be read.
  nlohmann::json settings = nlohmann::json::object();

  // From status.json; empty where it is missing or damaged. `updated` is a time in UTC.
  std::string state, updated, checkpoint;
  // The folder of the checkpoint with the lowest held-out loss of those that are there; empty where
  // no evaluation says which.
  std::string best_checkpoint;

  RunCurves curves;
  std::vector<EvaluationColumn> evaluations;
  std::optional<ExpectedCurve> expected;  // of eval_loss, where the run has a forecast
  RunEvents events;
  // Figures of the last update; NaN or 0 where there is none. `loss` is the mean of the last
  // kLossShare of the updates, at least one.
  double step = 0, tokens = 0, elapsed = 0, loss = 0;
  std::optional<int64_t> num_parameters;  // as the caller knows them

  std::vector<std::string> notes;  // sentences for people about what could not be read
};
inline constexpr double kLossShare = 0.01;

// `most_buckets` limits the points of a curve. Throws Error(kIo), Error(kData) for something
// that is no file where a file should be, and StopRequested on a signal.
RunRecord read_run_record(const RunFiles& files, size_t most_buckets);
// Reads several, each in a thread of its own as far as there are processors.
std::vector<RunRecord> read_run_records(const std::vector<RunFiles>& files, size_t most_buckets);

// Returns the column with this key, or null.
const EvaluationColumn* evaluation_of(const RunRecord& run, const std::string& key);
// Returns the last value of "eval_loss"; none when there was no evaluation, or it is not finite.
std::optional<double> final_held_out_loss(const RunRecord& run);

// Short names by which the runs of a report can be told apart.

// Returns for each folder the last component of its path; where several are equal, these have as
// many components more as tell them apart: "a/run" and "b/run". Bytes that are no UTF-8 become
// U+FFFD. Requires absolute paths that differ.
std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& folders);

}  // namespace lmtrain
