// The files of a corpus: files, folders and globs, in byte order of path; with the position of a
// document in its file (readers.h) this is the one order on which everything else rests.
// docs/data.md states it exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
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

// How the file is to be read: text (a file is a document), lines, jsonl, parquet or arrow. `auto`
// goes by extension, with that of a compression (byte_stream.h) taken off: .jsonl and .ndjson,
// .parquet, .arrow and .feather; everything else is text. Error(kConfig) for a format that holds no
// text, or a table that is compressed as a whole.
std::string resolve_format(const std::filesystem::path& path, const std::string& format);

// What is met in files and is no document; counted, so that nothing is dropped silently.
struct NoDocuments {
  int64_t blank_lines = 0;  // lines, jsonl
  int64_t nulls = 0;        // jsonl, tables: text that is null

  NoDocuments& operator+=(const NoDocuments& other) {
    blank_lines += other.blank_lines;
    nulls += other.nulls;
    return *this;
  }
};

// Error(kData) when size or time of the file are no longer those of the list.
void require_unchanged(const SourceFile& file);

}  // namespace lmtrain
