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

// Does the same, but parses only lines that contain `text`, such as "\"eval_loss\"": in a file of
// gigabytes few lines may be wanted. `text` has no newline.
void for_each_json_line_with(
    const std::filesystem::path& path, std::string_view text,
    const std::function<void(const nlohmann::json& line, uint64_t end)>& visit);

// Returns the number under this key of a line. Returns nothing where the key is missing or its
// value is no number.
std::optional<double> number_at(const nlohmann::json& line, const char* key);

}  // namespace lmtrain
