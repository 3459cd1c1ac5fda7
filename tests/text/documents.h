// All documents of a file, as its reader gives them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "prepare/folder.h"
#include "text/format.h"
#include "text/readers.h"

namespace lmtrain {

using Texts = std::vector<std::string>;

// The documents of a file.
struct Read {
  Texts texts;
  std::vector<int64_t> positions;
  NoDocuments skipped;
};

inline Read read(const std::filesystem::path& path, DataFormat format = DataFormat::kAuto,
                 const std::string& field = "text", int64_t first = 0,
                 uint64_t max_document = uint64_t{1} << 30, bool skips_bad_lines = false) {
  Read result;
  const std::string by_name = format_by_name(path, format);
  const auto reader = open_documents(path, by_name.empty() ? "text" : by_name, field, first,
                                     max_document, skips_bad_lines);
  int64_t last = -1;
  for (Document document; reader->next(document);) {
    EXPECT_GT(document.position, last);
    last = document.position;
    result.texts.emplace_back(document.text);
    result.positions.push_back(last);
  }
  Document none;
  EXPECT_FALSE(reader->next(none)) << "the end stays the end";
  result.skipped = reader->skipped();
  return result;
}

// The message of the Error(kData) that reading gives.
inline std::string problem(const std::filesystem::path& path, DataFormat format = DataFormat::kAuto,
                           const std::string& field = "text") {
  return error_of(ErrorKind::kData, [&] { read(path, format, field); });
}

}  // namespace lmtrain
