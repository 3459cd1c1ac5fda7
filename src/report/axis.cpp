#include "report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

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

}  // namespace lmtrain
