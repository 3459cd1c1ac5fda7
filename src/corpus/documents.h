// Documents from files, folders and globs, in byte order of path, then position: the one order on which everything else
// rests. Formats here: text (a file is a document), lines, jsonl (field `text_field`); `auto` goes by extension
// (.jsonl, .json lines: jsonl; everything else: text).
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
  std::filesystem::path path;  // as found, absolute
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  double weight = 1.0;
};

// Expands ${VAR}, ~ is not special. A pattern that matches nothing, or a path that does not exist, is Error(kUsage) naming it
// and the JSON pointer. A file named by two sources is taken once. Hidden files are taken only if named by the pattern.
std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources);

// Calls `visit(text, position)` for each document of the file, position counted from 0; `text` is valid during the call.
// Error(kData) naming file:line for a bad line of JSON, a missing or non-string field.
void read_documents(const SourceFile& file, const std::string& format, const std::string& text_field,
                    const std::function<void(std::string_view text, int64_t position)>& visit);

}  // namespace lmtrain
