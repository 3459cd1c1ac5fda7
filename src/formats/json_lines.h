// These functions read JSON-lines files that only grow (metrics.jsonl, events.jsonl). A process
// that was killed may leave a torn line at the end. So a line without its newline is skipped, as is
// every line that is no object of strict JSON (strict_json.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace lmtrain {

// Calls `visit(line, end)` for every line in order; `end` is the offset after its newline. A
// missing file has no lines. Throws Error(kIo) when the file cannot be read.
void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const nlohmann::json& line, uint64_t end)>& visit);

// Does the same for the lines that hold `text`, such as "\"eval_loss\"", without a newline, and
// looks at no other: of a file of gigabytes few lines may be wanted.
void for_each_json_line_with(
    const std::filesystem::path& path, std::string_view text,
    const std::function<void(const nlohmann::json& line, uint64_t end)>& visit);

// Returns the number that a line has under this key; none where the key is missing or holds
// anything else.
std::optional<double> number_at(const nlohmann::json& line, const char* key);

}  // namespace lmtrain
