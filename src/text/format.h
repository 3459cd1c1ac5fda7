// Decides the format in which each file of a corpus is read. With `data.format: "auto"` the
// extension of a supported format decides. Files without one are judged by their content
// (content.h). Files that hold no text documents (archives, images, JSON documents, CSV tables) are
// refused. docs/data.md states the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "text/source_file.h"

namespace lmtrain {

// Returns the format of a file: the name of `format`, such as "text", unless it is kAuto. For kAuto
// the extension before a compression's (byte_stream.h) decides: .jsonl and .ndjson, .parquet,
// .arrow and .feather, .mds; "" for any other. Throws Error(kConfig) for kTokens, which is no text,
// a compression that is not read, and a Parquet or Arrow file that is compressed as a whole.
std::string format_by_name(const std::filesystem::path& path, DataFormat format);

// Sets `format` of each file of the list `sources`. `pointer` is the JSON pointer of the list in
// the config, or "" for paths typed on the command line. Logs which files are read as text though
// they look like data. An error names the bad files of one entry of the list and what to do. Throws
// the errors of byte_stream.h, and:
//   Error(kConfig)  files cannot be read as text
//   Error(kData)    a file is only a pointer to its content (content.h)
//   StopRequested   on a signal
void decide_formats(std::vector<SourceFile>& files, DataFormat format,
                    const std::string& text_field, const std::string& pointer,
                    const std::vector<DataSourceConfig>& sources = {});

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
