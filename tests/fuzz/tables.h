// Reads every document of a file in a format.
#pragma once

#include <string>

#include "fuzz/target.h"
#include "text/readers.h"

namespace lmtrain::fuzzing {

inline void read_documents(const std::filesystem::path& path, const std::string& format) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  constexpr int kMostDocuments = 20'000;  // a column of nulls or of equal texts takes few bytes
  for (const int64_t first : {0, 3}) {
    accepts([&] {
      const auto reader = open_documents(path, format, "text", first, kMostBytes);
      Document document;
      int64_t last = -1;
      for (int i = 0; i < kMostDocuments && reader->next(document); ++i) {
        require(document.position > last, "positions do not ascend");
        require(document.text.size() <= kMostBytes, "a document above the limit");
        uint8_t all = 0;
        for (const char byte : document.text) all ^= static_cast<uint8_t>(byte);
        require(all != 0 || all == 0, "every byte is there to be read");
        last = document.position;
      }
    });
  }
}

}  // namespace lmtrain::fuzzing
