// Reads the prompts of a file, for `generate --prompts`: one a line, or JSON lines that are objects
// with a string "prompt".
//
// A file is JSON lines when its name ends in .jsonl or .ndjson, or when its first line that is not
// empty is such an object. In a file of JSON lines empty lines are left out. In any other every
// line is a prompt as it stands, empty ones too, without the line feed and a carriage return before
// it; a line feed at the end begins no line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

struct Prompt {
  std::string text;
  std::string where;  // file:line
};

// Returns the prompts of `bytes`, in order, without a byte order mark at the beginning. Throws
// Error(kData) that names `origin` and the line for a line that should be such an object and is
// none, and where there is no prompt at all.
std::vector<Prompt> parse_prompts(std::string_view bytes, const std::string& origin);
// Reads a file, which may be a pipe, and returns its prompts. Throws Error(kUsage) for a path that
// does not exist or is a folder; Error(kData) as parse_prompts does, and for more than 1 GiB;
// Error(kIo); StopRequested when a signal comes while it waits for a pipe.
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace lmtrain
