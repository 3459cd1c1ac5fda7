// A SourceFile is a file with documents, as list_source_files() (sources.h) found it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lmtrain {

struct SourceFile {
  std::filesystem::path path;  // absolute
  uint64_t size = 0;           // bytes
  int64_t mtime_ns = 0;        // since 1970
  int32_t source = 0;          // index of the entry of the list that named it
  std::string format{};        // how it is read (format.h); empty until decide_formats()
};

// Returns the SourceFile at the absolute `path`, with its present size and time. Throws
// Error(kData) when no regular file is there.
SourceFile source_file(const std::filesystem::path& path, size_t source = 0);

// Throws Error(kData) when size or time of the file differ from those in `file`.
void require_unchanged(const SourceFile& file);
// Throws Error(kData) which says that the file changed while it was read.
[[noreturn]] void fail_changed_file(const std::filesystem::path& path);

// Throws Error(kData) for `what`, such as "a document" or "a line", at `where` (a path, perhaps
// with a line or row), which has more than `max_document` bytes. The message says what to do;
// `advice`, such as "...; else ", comes before that.
[[noreturn]] void fail_large_document(const std::string& where, std::string_view what,
                                      uint64_t max_document, std::string_view advice = "");

// Counts the lines, nulls and rows that a reader met and that are no documents, so that nothing is
// dropped silently.
struct NoDocuments {
  int64_t blank_lines = 0;  // lines, jsonl
  int64_t nulls = 0;        // jsonl, tables: text that is null
  int64_t json_lines = 0;   // jsonl: lines read that are not blank
  int64_t bad_lines = 0;    // jsonl: how many of these were skipped because they hold no text
  std::vector<std::string> first_bad_lines{};  // "FILE:LINE: reason" of the first few

  int64_t padding = 0;     // tables of ids: positions left out
  int64_t empty_rows = 0;  // likewise: rows without an id that is trained on

  static constexpr size_t kMostNamed = 5;
  void add_bad_line(std::string what) {
    ++bad_lines;
    if (first_bad_lines.size() < kMostNamed) first_bad_lines.push_back(std::move(what));
  }
  NoDocuments& operator+=(const NoDocuments& other) {
    blank_lines += other.blank_lines;
    nulls += other.nulls;
    json_lines += other.json_lines;
    bad_lines += other.bad_lines;
    padding += other.padding;
    empty_rows += other.empty_rows;
    for (const std::string& line : other.first_bad_lines) {
      if (first_bad_lines.size() < kMostNamed) first_bad_lines.push_back(line);
    }
    return *this;
  }
  bool operator==(const NoDocuments&) const = default;
};

}  // namespace lmtrain
