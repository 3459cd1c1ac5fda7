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
  int32_t source = 0;  // which entry of the list named it
};

// Expands ${VAR}; ~ is not special. A pattern that matches nothing, or a path that does not exist,
// is Error(kUsage) naming it and its JSON pointer in the list `pointer` (empty: typed on the
// command line). A file named by two sources is taken once, as the first one's. Hidden
// files are taken only if the pattern spells the dot.
std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer = "/data/train");

// The reader for the file: text, lines or jsonl. Error(kConfig) when `format`, or the file by its
// extension, is of a kind that this version does not read.
std::string resolve_format(const std::filesystem::path& path, const std::string& format);

// What is met in files and is no document; counted, so that nothing is dropped silently.
struct NoDocuments {
  int64_t blank_lines = 0;  // lines, jsonl
  int64_t nulls = 0;        // tables: rows whose text is null

  NoDocuments& operator+=(const NoDocuments& other) {
    blank_lines += other.blank_lines;
    nulls += other.nulls;
    return *this;
  }
};

// Calls `visit(text, position)` for each document of the file, position counted from 0; `text` is
// valid during the call.
// Memory: one document. Error(kData) naming file:line for a bad line of JSON, a missing or
// non-string field.
NoDocuments read_documents(
    const SourceFile& file, const std::string& format, const std::string& text_field,
    const std::function<void(std::string_view text, int64_t position)>& visit);

}  // namespace lmtrain
