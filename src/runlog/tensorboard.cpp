#include "runlog/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>

#include "base/examine.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// Field numbers of the protobuf messages.
constexpr uint32_t kEventWallTime = 1;     // double
constexpr uint32_t kEventStep = 2;         // int64
constexpr uint32_t kEventFileVersion = 3;  // string
constexpr uint32_t kEventSummary = 5;      // Summary
constexpr uint32_t kEventSessionLog = 7;   // SessionLog
constexpr uint32_t kSummaryValue = 1;      // repeated Summary.Value
constexpr uint32_t kValueTag = 1;          // string
constexpr uint32_t kValueSimple = 2;       // float
constexpr uint32_t kSessionStatus = 1;     // enum
constexpr uint64_t kSessionStart = 1;

constexpr uint32_t kWireVarint = 0;
constexpr uint32_t kWireFixed64 = 1;
constexpr uint32_t kWireBytes = 2;
constexpr uint32_t kWireFixed32 = 5;

void put_fixed(std::string& out, std::unsigned_integral auto value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFFU);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7FU) | 0x80U);
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, uint32_t wire) {
  put_varint(out, (field << 3) | wire);
}

void put_integer(std::string& out, uint32_t field, uint64_t value) {
  put_key(out, field, kWireVarint);
  put_varint(out, value);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kWireBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_key(event, kEventWallTime, kWireFixed64);
  put_fixed(event, std::bit_cast<uint64_t>(now.count()));
  put_integer(event, kEventStep, static_cast<uint64_t>(step));
  return event;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(0, bytes.data(), bytes.size());
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

// Appends a TFRecord: length, its CRC, data, its CRC.
void put_record(std::string& out, std::string_view data) {
  std::string length;
  put_fixed(length, uint64_t{data.size()});
  out += length;
  put_fixed(out, masked_crc(length));
  out += data;
  put_fixed(out, masked_crc(data));
}

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

// The seconds in the name of the last file of the folder; -1 where there is none. A name with more
// than ten digits is not TensorBoard's.
int64_t last_seconds(const std::filesystem::path& folder) {
  int64_t last = -1;
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(kEventFilePrefix)) continue;
    int64_t seconds = -1;
    const char* const begin = name.data() + kEventFilePrefix.size();
    std::from_chars(begin, name.data() + name.size(), seconds);
    if (seconds < 10'000'000'000) last = std::max(last, seconds);
  }
  return last;
}

// TensorBoard reads the files of a folder in the order of their names, which begin with a time in
// seconds. The new file is the last, even if the clock was set back.
std::filesystem::path new_event_file(const std::filesystem::path& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t seconds = std::max<int64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now).count(), last_seconds(folder) + 1);
  std::string digits = std::to_string(seconds);
  if (digits.size() < 10) digits.insert(0, 10 - digits.size(), '0');
  return folder / str(kEventFilePrefix, digits, ".", host_name(), ".", ::getpid(), ".0");
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder,
                                     std::optional<int64_t> resumed_from) {
  lmtrain::create_directories(folder);
  path_ = new_event_file(folder);

  std::string records;
  std::string version = event_at(0);
  put_bytes(version, kEventFileVersion, "brain.Event:2");
  put_record(records, version);
  if (resumed_from) {
    // A session that starts at step n makes TensorBoard drop earlier values of steps >= n.
    std::string session;
    put_integer(session, kSessionStatus, kSessionStart);
    std::string start = event_at(*resumed_from + 1);
    put_bytes(start, kEventSessionLog, session);
    put_record(records, start);
  }
  append(records);
}

void TensorboardWriter::scalars(std::span<const Scalar> values, int64_t step) {
  std::string summary;
  for (const Scalar& scalar : values) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimple, kWireFixed32);
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = event_at(step);
  put_bytes(event, kEventSummary, summary);
  std::string record;
  put_record(record, event);
  append(record);
}

void TensorboardWriter::append(const std::string& records) {
  append_file(path_, records, /*sync=*/false);
}

}  // namespace lmtrain
