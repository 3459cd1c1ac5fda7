#include "report/static_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/text.h"
#include "report/html.h"

namespace lmtrain {

std::vector<double> linear_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) return ticks;
  const double rough = (high - low) / std::max(1, count);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  if (!std::isfinite(rough) || !(power > 0)) return ticks;
  const double ratio = rough / power;
  const double spacing = power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
  const double first = std::ceil(low / spacing - 1e-9);
  for (double i = first; i * spacing <= high + spacing * 1e-9 && ticks.size() < 100; ++i)
    ticks.push_back(i * spacing);
  return ticks;
}

std::vector<double> power_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(low > 0) || !(low <= high) || !std::isfinite(high)) return ticks;
  const auto first = static_cast<int>(std::ceil(std::log2(low) - 1e-9));
  const auto last = static_cast<int>(std::floor(std::log2(high) + 1e-9));
  int stride = 1;
  while ((last - first) / stride >= std::max(1, count)) stride *= 2;
  for (int i = first; i <= last; i += stride) ticks.push_back(std::ldexp(1.0, i));
  return ticks;
}

std::string tick_text(double value, double spacing) {
  constexpr std::array<const char*, 5> kSuffixes = {"", "K", "M", "B", "T"};
  if (value == 0) return "0";
  size_t suffix = 0;
  double scaled = value, step = std::fabs(spacing);
  while (std::fabs(scaled) >= 9999.5 || (suffix > 0 && std::fabs(scaled) >= 999.5)) {
    if (suffix + 1 == kSuffixes.size()) break;
    scaled /= 1000;
    step /= 1000;
    ++suffix;
  }
  if (std::fabs(scaled) < 1e-4) return printed("%.3g", scaled);
  const int digits =
      step > 0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-6)), 0, 6) : 2;
  std::string text = printed(("%." + std::to_string(digits) + "f").c_str(), scaled);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text + kSuffixes[suffix];
}

namespace {

constexpr double kWidth = 720, kHeight = 260;
constexpr double kLeft = 56, kRight = 18, kTop = 10, kBottom = 34;
constexpr size_t kMostPoints = 360;  // of a curve

struct Point {
  double x, y;
};
using Curve = std::vector<Point>;

template <class X, class Y>
Curve pairs_of(std::span<const X> x, std::span<const Y> y) {
  Curve curve;
  for (size_t i = 0; i < x.size(); ++i)
    curve.push_back({static_cast<double>(x[i]), static_cast<double>(y[i])});
  return curve;
}

// Returns the curve with at most kMostPoints points, each the mean of several.
Curve thinned(const Curve& curve) {
  if (curve.size() <= kMostPoints) return curve;
  Curve thin;
  for (size_t i = 0; i < kMostPoints; ++i) {
    const size_t end = (i + 1) * curve.size() / kMostPoints;
    Point mean = {curve[end - 1].x, 0};
    int64_t count = 0;
    for (size_t j = i * curve.size() / kMostPoints; j < end; ++j) {
      if (!std::isfinite(curve[j].y)) continue;
      mean.y += curve[j].y;
      ++count;
    }
    mean.y =
        count > 0 ? mean.y / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
    thin.push_back(mean);
  }
  return thin;
}

Curve curve_of(const Chart& chart, const RunRecord& run) {
  if (chart.evaluation) {
    const EvaluationColumn* column = evaluation_of(run, chart.key);
    return column == nullptr ? Curve() : pairs_of<double, double>(column->tokens, column->value);
  }
  const auto column = run.curves.columns.find(chart.key);
  if (column == run.curves.columns.end()) return {};
  return thinned(pairs_of<float, float>(run.curves.tokens, column->second.mean));
}

struct ShownRange {
  double low = 0, high = 1;
};

// Returns the values that the axis spans. Leaves out the values of the first steps, and the largest
// hundredth, which would squeeze all others.
ShownRange range_of(const Chart& chart, const std::vector<Curve>& curves, double most_x) {
  constexpr double kFirstSteps = 0.02, kShown = 0.99;
  std::vector<double> values, all;
  for (const Curve& curve : curves) {
    for (const Point& point : curve) {
      if (!std::isfinite(point.y)) continue;
      all.push_back(point.y);
      if (point.x >= kFirstSteps * most_x) values.push_back(point.y);
    }
  }
  if (values.empty()) values = all;
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  ShownRange range = {
      values.front(),
      chart.evaluation || chart.scale == ChartScale::kPowersOfTwo
          ? values.back()
          : values[static_cast<size_t>(kShown * static_cast<double>(values.size() - 1))]};
  if (chart.scale == ChartScale::kPowersOfTwo) {
    const double low = std::max(range.low, 1.0);
    return {low / 1.3, std::max(range.high, low) * 1.3};
  }
  if (chart.scale == ChartScale::kFromZero) range.low = std::min(0.0, range.low);
  const double pad = range.high > range.low ? 0.06 * (range.high - range.low)
                                            : std::max(std::fabs(range.high) * 0.1, 1e-9);
  // An axis does not go below zero where no value does.
  return {range.low >= 0 ? std::max(0.0, range.low - pad) : range.low - pad, range.high + pad};
}

class Drawing {
 public:
  Drawing(const Chart& chart, ShownRange range, double most_x)
      : chart_(chart), range_(range), most_x_(most_x) {}

  // The grid, and all curves in their frame, each above what was forecast for it.
  std::string content(const std::vector<Curve>& curves,
                      const std::vector<const ExpectedCurve*>& forecasts = {}) const {
    std::string svg = str("<g>", grid(), "</g>", "<svg x=\"", kLeft, "\" y=\"", kTop - 4,
                          "\" width=\"", kWidth - kLeft - kRight, "\" height=\"",
                          kHeight - kTop - kBottom + 6, "\" viewBox=\"", kLeft, " ", kTop - 4, " ",
                          kWidth - kLeft - kRight, " ", kHeight - kTop - kBottom + 6, "\">");
    for (size_t i = 0; i < curves.size(); ++i) {
      if (i < forecasts.size() && forecasts[i] != nullptr) svg += expected(*forecasts[i], i);
      svg += path(curves[i], i);
    }
    return svg + "</svg>";
  }

 private:
  std::string grid() const {
    const bool powers = chart_.scale == ChartScale::kPowersOfTwo;
    const std::vector<double> y_ticks =
        powers ? power_ticks(range_.low, range_.high, 6) : linear_ticks(range_.low, range_.high, 5);
    std::string svg;
    for (const double tick : y_ticks) {
      svg +=
          str("<path class=\"grid\" d=\"M", number(kLeft), " ", number(y(tick)), "H",
              number(kWidth - kRight), "\"/>", "<text class=\"ytick\" x=\"", number(kLeft - 7),
              "\" y=\"", number(y(tick) + 4), "\">", tick_text(tick, spacing(y_ticks)), "</text>");
    }
    const std::vector<double> x_ticks = linear_ticks(0, most_x_, 6);
    for (const double tick : x_ticks) {
      svg +=
          str("<text class=\"xtick\" x=\"", number(x(tick)), "\" y=\"",
              number(kHeight - kBottom + 17), "\">", tick_text(tick, spacing(x_ticks)), "</text>");
    }
    return svg + str("<path class=\"axis\" d=\"M", number(kLeft), " ", number(kHeight - kBottom),
                     "H", number(kWidth - kRight), "\"/><text class=\"xname\" x=\"",
                     number(kWidth - kRight), "\" y=\"", number(kHeight - 3), "\">tokens</text>");
  }

  // A curve is cut where a value is not finite.
  std::string path(const Curve& curve, size_t run, const char* extra = "") const {
    std::string line;
    bool pen_is_down = false;
    for (const Point& point : curve) {
      if (!std::isfinite(point.y) || !std::isfinite(point.x)) {
        pen_is_down = false;
        continue;
      }
      line += str(pen_is_down ? "L" : "M", number(x(point.x)), " ", number(y(point.y)));
      pen_is_down = true;
    }
    return line.empty()
               ? ""
               : str("<path class=\"line ", run_classes(run), extra, "\" d=\"", line, "\"/>");
  }

  // Draws the forecast: a dashed line in a band.
  std::string expected(const ExpectedCurve& curve, size_t run) const {
    std::string there, back;
    Curve middle;
    for (const ExpectedPoint& point : curve.points) {
      const std::string at = number(x(point.tokens));
      there += str(there.empty() ? "M" : "L", at, " ", number(y(point.high)));
      back = str("L", at, " ", number(y(point.low)), back);
      middle.push_back({point.tokens, point.loss});
    }
    return str("<path class=\"band ", run_classes(run), "\" d=\"", there, back, "Z\"/>",
               path(middle, run, " expected"));
  }

  static std::string number(double value) { return printed("%.4g", value); }
  static double spacing(const std::vector<double>& ticks) {
    return ticks.size() > 1 ? ticks[1] - ticks[0] : ticks.empty() ? 1 : ticks[0];
  }
  double x(double value) const { return kLeft + value / most_x_ * (kWidth - kLeft - kRight); }
  double y(double value) const {
    const bool powers = chart_.scale == ChartScale::kPowersOfTwo;
    const auto place = [&](double v) { return powers ? std::log2(std::max(v, 1e-9)) : v; };
    const double share =
        (place(value) - place(range_.low)) / (place(range_.high) - place(range_.low));
    // Far outside the frame a coordinate is as good as just outside.
    return kHeight - kBottom - std::clamp(share, -1.0, 3.0) * (kHeight - kTop - kBottom);
  }

  const Chart& chart_;
  ShownRange range_;
  double most_x_;
};

}  // namespace

std::string run_classes(size_t run) {
  return str("c", run % kRunColours, " d", run / kRunColours % kRunDashes);
}

std::string static_chart(const Chart& chart, const std::vector<RunRecord>& runs) {
  std::vector<Curve> curves;
  double most_x = 0;
  for (const RunRecord& run : runs) {
    curves.push_back(curve_of(chart, run));
    for (const Point& point : curves.back())
      if (std::isfinite(point.x)) most_x = std::max(most_x, point.x);
  }
  if (!(most_x > 0)) most_x = 1;
  const Drawing drawing(chart, range_of(chart, curves, most_x), most_x);
  std::vector<const ExpectedCurve*> expected;
  expected.reserve(runs.size());
  for (const RunRecord& run : runs)
    expected.push_back(chart.key == kExpectedKey && run.expected ? &*run.expected : nullptr);
  return str("<svg viewBox=\"0 0 ", kWidth, " ", kHeight, "\" role=\"img\" aria-label=\"",
             escape_html(chart.title), " against tokens\">", drawing.content(curves, expected),
             "</svg>");
}

std::string loss_curve_file(const RunRecord& run) {
  const Chart training = {.key = "loss", .title = "Training loss", .unit = ""};
  const Chart held_out = {
      .key = "eval_loss", .evaluation = true, .title = "Held-out loss", .unit = ""};
  const std::vector<Curve> curves = {curve_of(training, run), curve_of(held_out, run)};
  double most_x = 0;
  bool has_point = false;
  for (const Curve& curve : curves) {
    for (const Point& point : curve) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      most_x = std::max(most_x, point.x);
      has_point = true;
    }
  }
  if (!has_point) return "";
  if (!(most_x > 0)) most_x = 1;
  const Drawing drawing(training, range_of(training, curves, most_x), most_x);
  constexpr std::string_view kStyle =
      "<style>text{font:11.5px sans-serif;fill:#5c6672}.grid{stroke:#eceff2;fill:none}"
      ".axis{stroke:#5c6672;fill:none}.ytick,.xname,.key{text-anchor:end}"
      ".xtick{text-anchor:middle}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}"
      ".line.c0{stroke:#203282}.line.c1{stroke:#ed6a0e}.key.c0{fill:#203282}.key.c1{fill:#ed6a0e}"
      "</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";
  std::string keys;
  for (size_t i = 0; i < curves.size(); ++i) {
    keys += str("<text class=\"key ", run_classes(i), "\" x=\"", kWidth - kRight, "\" y=\"",
                kTop + 12 + 15 * static_cast<double>(i), "\">",
                escape_html((i == 0 ? training : held_out).title), "</text>");
  }
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"", kHeight,
             "\" viewBox=\"0 0 ", kWidth, " ", kHeight,
             "\" role=\"img\" aria-label=\"Training and held-out loss against tokens\">", kStyle,
             drawing.content(curves), keys, "</svg>\n");
}

}  // namespace lmtrain
