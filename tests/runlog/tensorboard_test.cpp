#include "runlog/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

template <class Value>
Value take(std::string_view& bytes) {
  Value value{};
  EXPECT_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
}

// A protobuf message as it is without its schema: field number -> raw values.
using Message = std::multimap<uint64_t, std::string>;
Message parse_message(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    size_t size = 0;
    switch (key & 7U) {
      case 0: {
        const uint64_t value = take_varint(bytes);
        message.emplace(key >> 3, std::string(std::bit_cast<std::array<char, 8>>(value).data(), 8));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(bytes);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7U);
        return message;
    }
    message.emplace(key >> 3, bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return message;
}

template <class Value>
Value as(const std::string& bytes) {
  std::string_view view = bytes;
  return take<Value>(view);
}

std::string one(const Message& message, uint64_t field) {
  EXPECT_EQ(message.count(field), 1U) << "field " << field;
  return message.count(field) == 1 ? message.find(field)->second : "";
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(0, bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

std::vector<Message> read_events(const fs::path& path) {
  const std::string file = read_file(path);
  std::string_view bytes = file;
  std::vector<Message> events;
  while (!bytes.empty()) {
    const std::string_view length_bytes = bytes.substr(0, 8);
    const auto length = take<uint64_t>(bytes);
    EXPECT_EQ(take<uint32_t>(bytes), masked(length_bytes));
    const std::string_view data = bytes.substr(0, length);
    bytes.remove_prefix(length);
    EXPECT_EQ(take<uint32_t>(bytes), masked(data));
    events.push_back(parse_message(data));
  }
  return events;
}

std::vector<std::pair<std::string, float>> values_of(const Message& event) {
  std::vector<std::pair<std::string, float>> values;
  const Message summary = parse_message(one(event, 5));
  for (const auto& [field, bytes] : summary) {
    EXPECT_EQ(field, 1U);
    const Message value = parse_message(bytes);
    values.emplace_back(one(value, 1), as<float>(one(value, 2)));
  }
  return values;
}

TEST(Tensorboard, WritesWhatItsReaderParses) {
  const TemporaryFolder folder;
  TensorboardWriter writer(folder / "tensorboard");
  EXPECT_NE(writer.path().filename().string().find("events.out.tfevents."), std::string::npos);
  const auto write_one = [&](const std::string& tag, double value, int64_t step) {
    const Scalar scalar{tag, value};
    writer.scalars({&scalar, 1}, step);
  };
  write_one("train/loss", 2.5, 1);
  const std::vector<Scalar> pair = {{"train/lr", 1e-3}, {std::string_view("eval/loss"), -3.0}};
  writer.scalars(pair, int64_t{1} << 40);
  write_one(std::string(300, 't'), std::numeric_limits<double>::infinity(), 0);

  const std::vector<Message> events = read_events(writer.path());
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(one(events[0], 3), "brain.Event:2");
  EXPECT_EQ(as<int64_t>(one(events[1], 2)), 1);
  EXPECT_EQ(values_of(events[1]),
            (std::vector<std::pair<std::string, float>>{{"train/loss", 2.5F}}));
  EXPECT_EQ(as<int64_t>(one(events[2], 2)), int64_t{1} << 40);
  EXPECT_EQ(values_of(events[2]), (std::vector<std::pair<std::string, float>>{
                                      {"train/lr", 1e-3F}, {"eval/loss", -3.0F}}));
  EXPECT_TRUE(std::isinf(values_of(events[3])[0].second));
  for (const Message& event : events) {
    EXPECT_NEAR(as<double>(one(event, 1)), static_cast<double>(std::time(nullptr)), 60.0);
  }
}

TEST(Tensorboard, ResumeHidesLaterSteps) {
  const TemporaryFolder folder;
  const TensorboardWriter writer(folder.path(), 1000);
  const std::vector<Message> events = read_events(writer.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(as<int64_t>(one(events[1], 2)), 1001);
  EXPECT_EQ(as<uint64_t>(one(parse_message(one(events[1], 7)), 1)), 1U) << "SessionLog.START";
}

TEST(Tensorboard, EveryWriterHasItsOwnFile) {
  const TemporaryFolder folder;
  const TensorboardWriter first(folder.path());
  const TensorboardWriter second(folder.path());
  EXPECT_NE(first.path(), second.path());
  EXPECT_LT(first.path().filename(), second.path().filename());
}

// The clock was ahead when the run began, or ran from 1970 on.
TEST(Tensorboard, ANewFileComesAfterTheOthersWhateverTheClockSays) {
  for (const char* earlier :
       {"events.out.tfevents.4102444800.host.1.0", "events.out.tfevents.0000000037.host.1.0"}) {
    const TemporaryFolder folder;
    testing::replace_file(folder / earlier, "");
    const TensorboardWriter writer(folder.path());
    EXPECT_GT(writer.path().filename(), fs::path(earlier));
  }
}

TEST(Tensorboard, ANameWithTheLastSecondOfAllIsPassedOver) {
  const TemporaryFolder folder;
  testing::replace_file(folder / "events.out.tfevents.9223372036854775807.host.1.0", "");
  const TensorboardWriter writer(folder.path());
  EXPECT_LT(writer.path().filename(), fs::path("events.out.tfevents.9"));
}

TEST(Tensorboard, UnwritableFolderIsIo) {
  testing::error_of(ErrorKind::kIo, [] { TensorboardWriter("/dev/null/folder"); });
}

}  // namespace
}  // namespace lmtrain
