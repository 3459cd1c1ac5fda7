// Documents from files, folders and globs, in byte order of path, then position: the one order on
// which everything else rests. Formats: text (a file is a document, byte for byte), lines (a line
// is one), jsonl (field `text_field` of each line); `auto` goes by extension (.jsonl, .ndjson:
// jsonl; everything else: text). docs/data.md states it exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

struct SourceFile {
  std::filesystem::path path;  // absolute
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  double weight = 1.0;
};

// Expands ${VAR}; ~ is not special. A pattern that matches nothing, or a path that does not exist,
// is Error(kUsage) naming it and its JSON pointer in the list `pointer` (empty: typed on the
// command line). A file named by two sources is taken once, with the first one's weight. Hidden
// files are taken only if the pattern spells the dot.
std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer = "/data/train");

// The reader for the file: text, lines or jsonl. Error(kConfig) when `format`, or the file by its
// extension, is of a kind that this version does not read.
std::string resolve_format(const std::filesystem::path& path, const std::string& format);

// Calls `visit(text, position)` for each document of the file, position counted from 0; `text` is
// valid during the call. Returns the number of blank lines, which are no documents (lines, jsonl).
// Memory: one document. Error(kData) naming file:line for a bad line of JSON, a missing or
// non-string field.
int64_t read_documents(const SourceFile& file, const std::string& format,
                       const std::string& text_field,
                       const std::function<void(std::string_view text, int64_t position)>& visit);

}  // namespace lmtrain
