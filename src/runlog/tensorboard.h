// Writes scalars for TensorBoard: an event file of TFRecords, each a protobuf `Event`, without a
// library.
//
// Sources: tensorflow/core/lib/io/record_writer.cc (framing, masked CRC-32C) and
// tensorflow/core/util/event.proto, framework/summary.proto (field numbers).
//
// Every call is one append to the file, so TensorBoard sees a value at once, and a killed run
// leaves at most one torn record at the end, which TensorBoard tolerates. Throws Error(kIo). Not
// thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lmtrain {

struct Scalar {
  std::string_view tag;  // "train/loss"
  double value = 0.0;    // stored as float32; non-finite values are kept
};

class TensorboardWriter {
 public:
  // Begins a new event file in `folder`, and creates the folder if it is missing. With
  // `resumed_from`, the step from which a run goes on, TensorBoard hides values of later steps in
  // older files.
  explicit TensorboardWriter(const std::filesystem::path& folder,
                             std::optional<int64_t> resumed_from = std::nullopt);

  // Appends the values as one event of optimizer step `step`, with the time of the call.
  void scalars(std::span<const Scalar> values, int64_t step);

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(const std::string& records);

  std::filesystem::path path_;
};

}  // namespace lmtrain
