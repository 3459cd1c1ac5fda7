// Reads the files of a run folder for a report. Takes no lock and changes nothing; of a run in
// progress the record shows the present state.
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

// Describes an event of events.jsonl (docs/formats/run_folder.md) for people.
struct RunEvent {
  std::string time;  // as in the file
  std::string kind;  // "skip", "rollback", ...
  double step = 0;   // its place on the curves: updates applied before it
  std::string text;  // the other fields, for people; may be empty
};

// A text with which the model continued a prompt at an evaluation.
struct SampleEvent {
  double step = 0;
  std::string prompt, text;
};

struct RunEvents {
  // In the order of the file, without saves, samples, and the plain beginning and end of a run. Of
  // each kind at most kMostEventsOfAKind: the first ones and the last ones.
  std::vector<RunEvent> events;
  // By ascending step; for a step that a run has evaluated again, the last texts. At most
  // kMostEventsOfAKind, likewise.
  std::vector<SampleEvent> samples;
  std::map<std::string, int64_t> counts;  // number of events by kind, all kinds
  std::string device, precision;          // of the last start or resume; empty: unknown
  std::optional<double> peak_memory;      // bytes; the largest in any event
};
inline constexpr size_t kMostEventsOfAKind = 400;

// Returns the events of a file, without damaged lines; none if the file is missing. Throws
// Error(kIo), and Error(kData) if the path is no file.
RunEvents read_run_events(const std::filesystem::path& file);

// Names the files to read. Only `config` must exist.
struct RunFiles {
  std::filesystem::path folder, config, status, metrics, events;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string label;  // the caller sets it (run_labels())
  // config.json without its identity and digest; an empty object if it is damaged.
  nlohmann::json settings = nlohmann::json::object();

  // From status.json; empty if that is missing or damaged. `updated` is a time in UTC.
  std::string state, updated, checkpoint;
  // The folder of the present checkpoint with the lowest held-out loss; empty if no evaluation
  // tells.
  std::string best_checkpoint;

  RunCurves curves;
  std::vector<EvaluationColumn> evaluations;
  std::optional<ExpectedCurve> expected;  // of eval_loss, if the run has a forecast
  RunEvents events;
  // Figures of the last update; 0 without updates. `loss` is the mean of the last kLossShare of the
  // updates, at least one; NaN if none is finite.
  double step = 0, tokens = 0, elapsed = 0, loss = 0;
  std::optional<int64_t> num_parameters;  // the caller sets it

  std::vector<std::string> notes;  // sentences for people, about files that are damaged
};
inline constexpr double kLossShare = 0.01;

// Reads one run. `most_buckets` limits the points of a curve. Throws Error(kIo), also if `config`
// is missing, Error(kData) if a path is no file, and StopRequested on a signal.
RunRecord read_run_record(const RunFiles& files, size_t most_buckets);
// Reads several runs, on all processors, in the order of `files`. Throws the same errors.
std::vector<RunRecord> read_run_records(const std::vector<RunFiles>& files, size_t most_buckets);

// Returns the column with this key, or null.
const EvaluationColumn* evaluation_of(const RunRecord& run, const std::string& key);
// Returns the last value of "eval_loss"; nothing without an evaluation, or if it is not finite.
std::optional<double> final_held_out_loss(const RunRecord& run);

// Returns a short name for each folder: the last component of its path, with more components where
// names are equal ("a/run" and "b/run"). Invalid UTF-8 becomes U+FFFD. Requires absolute paths that
// differ.
std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& folders);

}  // namespace lmtrain
