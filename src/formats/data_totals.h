// data_totals.json of a run (docs/formats/run_folder.md) counts the text that the run trains on, in
// all and by source, and its held-out text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace lmtrain {

struct TextTotals {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;
  bool operator==(const TextTotals&) const = default;
};

struct SourceTotals {
  int64_t source = 0;  // the index of the entry in data.train
  int64_t documents = 0;
  int64_t targets = 0;  // of one pass over the source
  bool operator==(const SourceTotals&) const = default;
};

struct DataTotals {
  TextTotals train, held_out;
  std::vector<SourceTotals> sources;
  bool operator==(const DataTotals&) const = default;
};

// Replaces the file. Throws Error(kIo).
void write_data_totals(const std::filesystem::path& file, const DataTotals& totals);
// Returns nothing where the file is missing or damaged. Throws Error(kIo).
std::optional<DataTotals> read_data_totals(const std::filesystem::path& file);

}  // namespace lmtrain
