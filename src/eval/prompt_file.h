// Reads the prompts of a file, for `generate --prompts`: one a line, or JSON lines that are objects
// with a string "prompt".
//
// A file is JSON lines if its name ends in .jsonl or .ndjson, or if its first line that is not
// blank is such an object; blank lines do not count. In any other file every line is a prompt as it
// stands, without its line end (LF or CRLF); an empty line is an empty prompt.
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

// Returns the prompts of `bytes`, in order; ignores a byte order mark at the beginning. Throws
// Error(kData) that names `origin` if:
//   the bytes are no UTF-8 text, or the file is of another kind, such as a table
//   there is no prompt
//   a line of JSON lines is no such object; the message names the line
std::vector<Prompt> parse_prompts(std::string_view bytes, const std::string& origin);
// Reads a file or pipe, and returns its prompts. Throws Error(kIo), and:
//   Error(kUsage)  the path does not exist or is a folder
//   Error(kData)   as parse_prompts(), or there is more than 1 GiB
//   StopRequested  a signal comes while it waits for a pipe
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace lmtrain
