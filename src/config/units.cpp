#include "config/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace lmtrain {
namespace {

struct UnitName {
  std::string_view name;
  double scale;
};

// Written from the back: powers of 1000 first.
constexpr std::array<UnitName, 8> kTokenUnits = {{{"", 1},
                                                  {"Ki", 0x1p10},
                                                  {"Mi", 0x1p20},
                                                  {"Gi", 0x1p30},
                                                  {"K", 1e3},
                                                  {"M", 1e6},
                                                  {"B", 1e9},
                                                  {"T", 1e12}}};
constexpr std::array<UnitName, 9> kByteUnits = {{{"B", 1},
                                                 {"KB", 1e3},
                                                 {"MB", 1e6},
                                                 {"GB", 1e9},
                                                 {"TB", 1e12},
                                                 {"KiB", 0x1p10},
                                                 {"MiB", 0x1p20},
                                                 {"GiB", 0x1p30},
                                                 {"TiB", 0x1p40}}};
constexpr std::array<UnitName, 3> kTimeUnits = {{{"s", 1}, {"min", 60}, {"h", 3600}}};
constexpr std::array<UnitName, 1> kPercentUnits = {{{"%", 1}}};
// Units as other programs write them, in lower case, but not those that differ from ours only in
// case. One table for each kind of amount: "b" is a billion in one and a byte in the other.
using UnitNames = std::vector<std::pair<std::string_view, std::string_view>>;
const UnitNames kOtherTokenUnits = {{"thousand", "K"}, {"million", "M"}, {"billion", "B"},
                                    {"trillion", "T"}, {"g", "B"},       {"kb", "K"},
                                    {"mb", "M"},       {"gb", "B"}};
const UnitNames kOtherByteUnits = {{"k", "KB"}, {"m", "MB"},   {"g", "GB"},
                                   {"t", "TB"}, {"byte", "B"}, {"bytes", "B"}};
const UnitNames kOtherTimeUnits = {{"m", "min"},       {"mins", "min"},  {"minute", "min"},
                                   {"minutes", "min"}, {"sec", "s"},     {"secs", "s"},
                                   {"second", "s"},    {"seconds", "s"}, {"hr", "h"},
                                   {"hrs", "h"},       {"hour", "h"},    {"hours", "h"}};
const UnitNames kOtherPercentUnits = {{"percent", "%"}, {"pct", "%"}};
constexpr double kLargestWhole = 0x1p53;

struct Amount {
  double number = 0;
  std::string_view unit;  // what follows the number and a space or none
};

std::optional<Amount> split_amount(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  Amount amount;
  // No exponent is read, so that a letter of a unit is not taken for one.
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), amount.number,
                                      std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(amount.number)) return std::nullopt;
  amount.unit = text.substr(static_cast<size_t>(parsed.ptr - text.data()));
  if (amount.unit.starts_with(' ')) amount.unit.remove_prefix(1);
  return amount;
}

template <size_t kCount>
std::optional<double> scaled(const Amount& amount, const std::array<UnitName, kCount>& units) {
  for (const UnitName& unit : units) {
    if (unit.name == amount.unit) return amount.number * unit.scale;
  }
  return std::nullopt;
}

template <size_t kCount>
std::optional<int64_t> whole(const Amount& amount, const std::array<UnitName, kCount>& units) {
  const std::optional<double> value = scaled(amount, units);
  if (!value || *value != std::trunc(*value) || *value > kLargestWhole) return std::nullopt;
  return static_cast<int64_t>(*value);
}

constexpr const char* kNumberPattern = R"(^[0-9]+(\.[0-9]+)? ?)";

template <size_t kCount>
std::string alternatives(const std::array<UnitName, kCount>& units) {
  std::vector<std::string> names;
  names.reserve(kCount);
  for (const UnitName& unit : units) names.emplace_back(unit.name);
  return "(" + join(names, "|") + ")";
}

std::string shortest(double value) {
  std::array<char, 400> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return {buffer.data(), end.ptr};
}

// Names of units, and what other programs write for them.
struct Candidates {
  std::vector<std::string> names;
  UnitNames others;

  template <size_t kCount>
  void add(const std::array<UnitName, kCount>& units, const UnitNames& more) {
    for (const UnitName& unit : units) {
      if (!unit.name.empty()) names.emplace_back(unit.name);
    }
    others.insert(others.end(), more.begin(), more.end());
  }
};

// The number of `text` with each of the candidates that its unit may stand for.
std::vector<std::string> similar(std::string_view text, const Candidates& candidates) {
  const std::vector<std::string>& names = candidates.names;
  const std::optional<Amount> amount = split_amount(text);
  if (!amount || amount->unit.empty()) return {};
  const std::string unit = lower_case(amount->unit);
  std::vector<std::string> meant;
  for (const std::string& name : names) {
    bool same = lower_case(name) == unit;
    for (const auto& [other, ours] : candidates.others)
      same = same || (other == unit && ours == name);
    if (same) meant.push_back(name);
  }
  constexpr size_t kLongEnough = 3;  // among shorter words everything is near
  if (meant.empty() && unit.size() >= kLongEnough) {
    if (std::string near = nearest_word(unit, names); !near.empty()) meant.push_back(near);
  }
  std::string number(text.substr(0, text.size() - amount->unit.size()));
  while (number.ends_with(' ')) number.pop_back();
  for (std::string& name : meant) {
    const bool word = name == "steps" || name == "epochs" || name == "tokens";
    name.insert(0, number + (word ? " " : ""));
  }
  return meant;
}

// Writes `amount` in the largest unit that makes the number whole, else with `ones` behind it.
template <size_t kCount>
std::string in_largest_unit(double amount, const std::array<UnitName, kCount>& units,
                            const char* ones) {
  for (size_t i = kCount; i-- > 1;) {
    const double count = amount / units[i].scale;
    if (count >= 1 && count == std::trunc(count)) {
      return shortest(count) + std::string(units[i].name);
    }
  }
  return shortest(amount) + ones;
}

}  // namespace

std::optional<int64_t> parse_tokens(std::string_view text) {
  std::optional<Amount> amount = split_amount(text);
  if (!amount) return std::nullopt;
  if (amount->unit.ends_with("tokens")) {
    amount->unit.remove_suffix(6);
    if (amount->unit.ends_with(" ")) amount->unit.remove_suffix(1);
  }
  return whole(*amount, kTokenUnits);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  const std::optional<Amount> amount = split_amount(text);
  return amount ? whole(*amount, kByteUnits) : std::nullopt;
}

std::optional<double> parse_duration(std::string_view text) {
  const std::optional<Amount> amount = split_amount(text);
  return amount ? scaled(*amount, kTimeUnits) : std::nullopt;
}

std::optional<TrainingDuration> parse_training_duration(std::string_view text) {
  const std::optional<Amount> amount = split_amount(text);
  if (!amount || amount->unit.empty()) return std::nullopt;
  if (amount->unit == "%") {
    if (amount->number > 100) return std::nullopt;
    return TrainingDuration{amount->number, TrainingDuration::Unit::kPercent};
  }
  if (amount->unit == "epochs" || amount->unit == "epoch") {
    return TrainingDuration{amount->number, TrainingDuration::Unit::kEpochs};
  }
  if (amount->unit == "steps" || amount->unit == "step") {
    if (amount->number != std::trunc(amount->number) || amount->number > kLargestWhole) {
      return std::nullopt;
    }
    return TrainingDuration{amount->number, TrainingDuration::Unit::kSteps};
  }
  if (const auto seconds = parse_duration(text))
    return TrainingDuration{*seconds, TrainingDuration::Unit::kSeconds};
  if (const auto tokens = parse_tokens(text)) {
    return TrainingDuration{static_cast<double>(*tokens), TrainingDuration::Unit::kTokens};
  }
  return std::nullopt;
}

std::vector<std::string> similar_tokens(std::string_view text) {
  Candidates candidates{{"tokens"}, {}};
  candidates.add(kTokenUnits, kOtherTokenUnits);
  return similar(text, candidates);
}

std::vector<std::string> similar_bytes(std::string_view text) {
  Candidates candidates;
  candidates.add(kByteUnits, kOtherByteUnits);
  return similar(text, candidates);
}

std::vector<std::string> similar_durations(std::string_view text) {
  Candidates candidates;
  candidates.add(kTimeUnits, kOtherTimeUnits);
  return similar(text, candidates);
}

std::vector<std::string> similar_training_durations(
    std::string_view text, const std::vector<TrainingDuration::Unit>& units) {
  Candidates candidates;
  for (const TrainingDuration::Unit unit : units) {
    switch (unit) {
      case TrainingDuration::Unit::kSteps:
        candidates.names.emplace_back("steps");
        break;
      case TrainingDuration::Unit::kTokens:
        candidates.names.emplace_back("tokens");
        candidates.add(kTokenUnits, kOtherTokenUnits);
        break;
      case TrainingDuration::Unit::kPercent:
        candidates.add(kPercentUnits, kOtherPercentUnits);
        break;
      case TrainingDuration::Unit::kSeconds:
        candidates.add(kTimeUnits, kOtherTimeUnits);
        break;
      case TrainingDuration::Unit::kEpochs:
        candidates.names.emplace_back("epochs");
        break;
    }
  }
  return similar(text, candidates);
}

std::string tokens_pattern() { return kNumberPattern + alternatives(kTokenUnits) + "( ?tokens)?$"; }
std::string bytes_pattern() { return kNumberPattern + alternatives(kByteUnits) + "$"; }
std::string duration_pattern() { return kNumberPattern + alternatives(kTimeUnits) + "$"; }

std::string training_duration_pattern(const std::vector<TrainingDuration::Unit>& units) {
  std::vector<std::string> patterns;
  for (const TrainingDuration::Unit unit : units) {
    switch (unit) {
      case TrainingDuration::Unit::kSteps:
        patterns.emplace_back("steps?");
        break;
      case TrainingDuration::Unit::kTokens:
        patterns.push_back(alternatives(kTokenUnits) + "( ?tokens)?");
        break;
      case TrainingDuration::Unit::kPercent:
        patterns.emplace_back("%");
        break;
      case TrainingDuration::Unit::kSeconds:
        patterns.push_back(alternatives(kTimeUnits));
        break;
      case TrainingDuration::Unit::kEpochs:
        patterns.emplace_back("epochs?");
        break;
    }
  }
  return std::string(kNumberPattern) + "(" + join(patterns, "|") + ")$";
}

std::string write_duration(double seconds) { return in_largest_unit(seconds, kTimeUnits, "s"); }

std::string write_training_duration(const TrainingDuration& duration) {
  switch (duration.unit) {
    case TrainingDuration::Unit::kSteps:
      return shortest(duration.value) + " steps";
    case TrainingDuration::Unit::kTokens:
      return in_largest_unit(duration.value, kTokenUnits, " tokens");
    case TrainingDuration::Unit::kPercent:
      return shortest(duration.value) + "%";
    case TrainingDuration::Unit::kSeconds:
      return write_duration(duration.value);
    case TrainingDuration::Unit::kEpochs:
      return shortest(duration.value) + " epochs";
  }
  return {};
}

}  // namespace lmtrain
