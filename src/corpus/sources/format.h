// How each file of a corpus is read, which `data.format: "auto"` leaves to the program: by the
// extension where it is one of ours, else by what the file holds (content.h). Text files that are
// none (archives, images, JSON documents, tables of commas) are refused, all in one message;
// docs/data.md states the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/enums.h"
#include "corpus/readers/source_file.h"

namespace lmtrain {

// text (a file is a document), lines, jsonl, parquet or arrow: `format`, or for kAuto by
// extension, with that of a compression (byte_stream.h) taken off: .jsonl and .ndjson, .parquet,
// .arrow and .feather. Empty where the name does not tell. Error(kConfig) for a format that holds
// no text, a compression that is not read, or a table that is compressed as a whole.
std::string format_by_name(const std::filesystem::path& path, DataFormat format);

// Sets `format` of each file. `pointer` is that of the list in the config, or empty for paths typed
// on the command line. Notes what it takes as text though it looks like data. Error(kConfig) that
// names the files that cannot be read, and what to do; Error(kIo) and Error(kData) of
// byte_stream.h. Polls stop_signal().
void decide_formats(std::vector<SourceFile>& files, DataFormat format,
                    const std::string& text_field, const std::string& pointer);

// How much was read in one format.
struct FormatCount {
  int64_t files = 0;
  int64_t documents = 0;
  bool operator==(const FormatCount&) const = default;
};
using FormatCounts = std::map<std::string, FormatCount>;

// "12 files as text (12 documents), 3 files as jsonl (41233 documents)"
std::string describe_formats(const FormatCounts& counts);

}  // namespace lmtrain
