// A file that documents are read from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lmtrain {

struct SourceFile {
  std::filesystem::path path;  // absolute
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  double weight = 1.0;
  int32_t source = 0;    // which entry of the list named it
  std::string format{};  // how it is read (format.h); empty until that is decided
};

// The file at `path`, which a listing has just found. Error(kData) when it is no file any more.
SourceFile source_file(const std::filesystem::path& path, double weight, size_t source);

// Error(kData) when size or time of the file are no longer those of the list.
void require_unchanged(const SourceFile& file);

// How many things were met in files that are no documents, so that nothing is dropped silently.
struct NoDocuments {
  int64_t blank_lines = 0;  // lines, jsonl
  int64_t nulls = 0;        // jsonl, tables: text that is null

  NoDocuments& operator+=(const NoDocuments& other) {
    blank_lines += other.blank_lines;
    nulls += other.nulls;
    return *this;
  }
};

}  // namespace lmtrain
