// metrics.jsonl and events.jsonl of a run, as resume and the report read them.
#include <nlohmann/json.hpp>

#include "formats/strict_json.h"
#include "fuzz/target.h"
#include "report/metrics_series.h"
#include "report/run_record.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(records) {
  const std::filesystem::path path = write_scratch("metrics.jsonl", input);
  uint64_t last = 0;
  for_each_json_line(path, [&](const nlohmann::json& line, uint64_t end) {
    require(line.is_object() && end > last && end <= input.size() && input[end - 1] == '\n',
            "a line that is none");
    last = end;
    (void)number_at(line, "loss");
  });
  for_each_json_line_with(path, "\"eval_loss\"", [&](const nlohmann::json& line, uint64_t end) {
    require(line.is_object() && end <= last, "a line that is none");
  });

  const MetricsSeries series = read_metrics_series(path);
  const UpdateColumns& updates = series.updates;
  for (const UpdateColumn& column : kUpdateColumns)
    require((updates.*column.values).size() == updates.size(), "columns of different sizes");
  for (size_t i = 1; i < updates.size(); ++i)
    require(updates.step[i - 1] < updates.step[i], "steps do not ascend");
  if (updates.size() > 0) (void)curves_of(updates, 3);
  for (const EvaluationColumn& column : series.evaluations)
    require(column.value.size() == column.step.size(), "columns of different sizes");
  const RunEvents events = read_run_events(path);
  require(events.events.size() <= events.counts.size() * 2 * kMostEventsOfAKind, "many events");
}

}  // namespace lmtrain::fuzzing
