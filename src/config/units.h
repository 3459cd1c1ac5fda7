// Amounts with units as they stand in a config: "500 steps", "10B" and "64Ki" tokens, "100MB",
// "2%", "90s" "30min" "2h".
//
// Parsing returns nothing for text that is not such an amount; writing gives the shortest text that
// parses back to the same value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Whole tokens: "10B", "64Ki", "1.5M", "1000", each with or without " tokens".
std::optional<int64_t> parse_tokens(std::string_view text);
// Whole bytes: "100MB" (powers of 1000), "1GiB" (powers of 1024), "512B".
std::optional<int64_t> parse_bytes(std::string_view text);
// Seconds: "90s", "30min", "2h".
std::optional<double> parse_duration(std::string_view text);
// Any of the above but bytes, or "500 steps", "2%", "1.5 epochs". Tokens need their suffix or the
// word, as a bare number's unit is the key's affair.
std::optional<TrainingDuration> parse_training_duration(std::string_view text);

// The amounts that text which is none was probably meant to be, each as it should be written: for
// "10m" in a duration of tokens or time "10M" and "10min". Empty: nothing is near.
std::vector<std::string> similar_tokens(std::string_view text);
std::vector<std::string> similar_bytes(std::string_view text);
std::vector<std::string> similar_durations(std::string_view text);
std::vector<std::string> similar_training_durations(
    std::string_view text, const std::vector<TrainingDuration::Unit>& units);

// Regular expressions (ECMA 262) of what the parsers take, for the JSON Schema.
std::string tokens_pattern();
std::string bytes_pattern();
std::string duration_pattern();
std::string training_duration_pattern(const std::vector<TrainingDuration::Unit>& units);

// "90s", "30min", "2h": in the largest unit of which the duration is a whole number, else in
// seconds.
std::string write_duration(double seconds);
// "500 steps", "10M", "2%", "90s", "2 epochs".
std::string write_training_duration(const TrainingDuration& duration);

}  // namespace lmtrain
