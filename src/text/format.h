// Decides how each file of a corpus is read, which `data.format: "auto"` leaves to the program: by
// the extension where it is that of a supported format, else by what the file holds (content.h).
// Files that hold no text documents (archives, images, JSON documents, CSV tables) are refused, all
// in one message; docs/data.md states the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/enums.h"
#include "text/source_file.h"

namespace lmtrain {

// Returns the format of a file: "text" (the file is one document), "lines", "jsonl", "parquet" or
// "arrow". It is `format`, or for kAuto the one of the extension, with that of a compression
// (byte_stream.h) taken off: .jsonl and .ndjson, .parquet, .arrow and .feather. Returns an empty
// string where the name does not tell. Throws Error(kConfig) for a format that holds no text, a
// compression that is not read, or a table that is compressed as a whole.
std::string format_by_name(const std::filesystem::path& path, DataFormat format);

// Sets `format` of each file. `pointer` is the JSON pointer of the list in the config, or empty for
// paths typed on the command line. Logs which files it takes as text though they look like data.
// Throws Error(kConfig) that names the files that cannot be read, and what to do; Error(kIo) and
// Error(kData) as byte_stream.h says; and StopRequested on a signal.
void decide_formats(std::vector<SourceFile>& files, DataFormat format,
                    const std::string& text_field, const std::string& pointer);

// Counts what was read in one format.
struct FormatCount {
  int64_t files = 0;
  int64_t documents = 0;
  bool operator==(const FormatCount&) const = default;
};
using FormatCounts = std::map<std::string, FormatCount>;

// Returns a list such as "12 files as text (12 documents), 3 files as jsonl (41233 documents)".
std::string describe_formats(const FormatCounts& counts);

}  // namespace lmtrain
