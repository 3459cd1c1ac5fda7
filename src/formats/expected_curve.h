// The held-out loss that a forecast expects over a run: forecast.json of a run folder
// (docs/formats/run_folder.md). `train` writes it, the log of the run and the report read it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lmtrain {

// Losses are in nats a target. The loss lies between `low` and `high` with 80 % probability.
struct ExpectedPoint {
  double tokens = 0;  // targets trained
  double loss = 0, low = 0, high = 0;
};

struct ExpectedCurve {
  std::string forecast;               // the folder of the forecast
  std::vector<ExpectedPoint> points;  // by ascending tokens, the last one at the end of the run

  // Returns the values at `tokens`: linear in log(tokens) between two points, and beyond the points
  // the nearest point itself. Requires at least one point.
  ExpectedPoint at(double tokens) const;
};

// Returns the path of forecast.json in a run folder.
std::filesystem::path expected_curve_file(const std::filesystem::path& run);
void write_expected_curve(const std::filesystem::path& file, const ExpectedCurve& curve);
// Returns nothing for a file that is missing, damaged or without points. Both throw Error(kIo).
std::optional<ExpectedCurve> read_expected_curve(const std::filesystem::path& file);

}  // namespace lmtrain
