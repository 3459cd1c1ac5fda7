// Reads events.jsonl of a run (docs/formats/run_folder.md) for people: each event that is no matter
// of routine, with one sentence that says what happened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lmtrain {

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

}  // namespace lmtrain
