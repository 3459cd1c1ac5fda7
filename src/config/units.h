// A config may give amounts with units: "500 steps", "10B" and "64Ki" tokens, "100MB", "2%", "90s"
// "30min" "2h".
//
// K, M, B (G for bytes) and T are powers of 1000; Ki, Mi, Gi and, for bytes, Ti are powers of 1024.
// A space may stand before the unit. The parsers return nothing for any other text, for a negative
// amount, and for a number without a unit; only parse_tokens takes a bare number. The writers
// return text that parses back to the same value, if possible in a unit that makes the number
// whole.
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
// Parses tokens and durations as above, and "500 steps", "2%", "1.5 epochs". Steps are whole, and a
// percentage is at most 100. A bare number gives nothing, since its unit depends on the key.
std::optional<TrainingDuration> parse_training_duration(std::string_view text);

// These take a text that is no amount, and return what it probably means, each as it should be
// written: "10M" and "10min" for "10m" where tokens and times are allowed. Empty: nothing is near.
std::vector<std::string> similar_tokens(std::string_view text);
std::vector<std::string> similar_bytes(std::string_view text);
std::vector<std::string> similar_durations(std::string_view text);
std::vector<std::string> similar_training_durations(
    std::string_view text, const std::vector<TrainingDuration::Unit>& units);

// These return regular expressions (ECMA 262) for the JSON Schema. They match all that the parsers
// take, and also values above the limits.
std::string tokens_pattern();
std::string bytes_pattern();
std::string duration_pattern();
std::string training_duration_pattern(const std::vector<TrainingDuration::Unit>& units);

// Returns "90s", "30min" or "2h": a whole number of the largest unit possible, else seconds.
std::string write_duration(double seconds);
// Returns "500 steps", "10M", "2%", "90s" or "2 epochs".
std::string write_training_duration(const TrainingDuration& duration);

}  // namespace lmtrain
