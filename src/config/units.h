// A config may give amounts with units: "500 steps", "10B" and "64Ki" tokens, "100MB", "2%", "90s"
// "30min" "2h".
//
// K, M, B (G for bytes) and T are powers of 1000; Ki, Mi, Gi and, for bytes, Ti are powers of 1024.
// A space may stand before the unit. The parsers return nothing for text that is no such amount,
// for a negative one, and for one without a unit, which parse_tokens alone accepts. The writers
// return text that parses back to the same value, in a unit that makes the number whole where there
// is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Parses a whole number of tokens up to 2^53: "10B", "64Ki", "1.5M", "1000", each with or without
// " tokens".
std::optional<int64_t> parse_tokens(std::string_view text);
// Parses a whole number of bytes up to 2^53: "100MB" (powers of 1000), "1GiB" (powers of 1024),
// "512B".
std::optional<int64_t> parse_bytes(std::string_view text);
// Parses "90s", "30min" or "2h"; returns seconds.
std::optional<double> parse_duration(std::string_view text);
// Parses all of the above but bytes, and "500 steps", "2%", "1.5 epochs". Steps are whole, and a
// percentage is at most 100. Text without a unit is no such amount, since each key has its own unit
// for a bare number.
std::optional<TrainingDuration> parse_training_duration(std::string_view text);

// For text that is no amount these return what was probably meant, each as it should be written:
// "10M" and "10min" for "10m" where tokens and times are allowed. Empty: nothing is near.
std::vector<std::string> similar_tokens(std::string_view text);
std::vector<std::string> similar_bytes(std::string_view text);
std::vector<std::string> similar_durations(std::string_view text);
std::vector<std::string> similar_training_durations(
    std::string_view text, const std::vector<TrainingDuration::Unit>& units);

// These return regular expressions (ECMA 262) for the JSON Schema. They match what the parsers take
// and a little more: values have no limits.
std::string tokens_pattern();
std::string bytes_pattern();
std::string duration_pattern();
std::string training_duration_pattern(const std::vector<TrainingDuration::Unit>& units);

// Returns "90s", "30min" or "2h": a whole number of the largest unit possible, else seconds.
std::string write_duration(double seconds);
// Returns "500 steps", "10M", "2%", "90s" or "2 epochs".
std::string write_training_duration(const TrainingDuration& duration);

}  // namespace lmtrain
