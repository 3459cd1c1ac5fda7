#include "formats/manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::TemporaryFolder;

Manifest sample() {
  return {
      .step = 1000,
      .fingerprint = "00112233445566778899aabbccddeeff",
      .program = "lmtrain 0.1.0",
      .files = {{"model.safetensors", {uint64_t{1} << 40, 0xDEADBEEF}}, {"state.json", {0, 0}}}};
}

// A manifest whose checksum holds, whatever it says.
std::string sealed(json fields) {
  fields.erase("checksum");
  const std::string canonical = fields.dump();
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", crc32c(0, canonical.data(), canonical.size()));
  fields["checksum"] = digits;
  return fields.dump();
}

std::string refusal(const std::string& text) {
  std::string message =
      error_of(ErrorKind::kCheckpoint, [&] { parse_manifest(text, "manifest.json"); });
  EXPECT_TRUE(message.starts_with("manifest.json: ")) << message;
  return message;
}

TEST(Manifest, RoundTrip) {
  EXPECT_EQ(parse_manifest(manifest_to_text(sample()), "x"), sample());
  EXPECT_EQ(parse_manifest(manifest_to_text({}), "x"), Manifest{});
}

TEST(Manifest, TextIsCanonical) {
  EXPECT_EQ(manifest_to_text({.step = 3, .program = "p", .files = {{"a", {1, 2}}}}),
            R"({
  "checksum": "ad2862f8",
  "files": {
    "a": {
      "crc32c": "00000002",
      "size": 1
    }
  },
  "fingerprint": "",
  "program": "p",
  "step": 3,
  "version": 1
}
)");
}

// So that any JSON tool can check it: keys sorted, no spaces, without the checksum.
TEST(Manifest, ChecksumIsOfContentNotOfSpaces) {
  EXPECT_EQ(parse_manifest(sealed(json::parse(manifest_to_text(sample()))), "x"), sample());
}

TEST(Manifest, EveryChangedValueBreaksTheChecksum) {
  const json whole = json::parse(manifest_to_text(sample())).flatten();
  for (const auto& [pointer, value] : whole.items()) {
    json changed = whole;
    if (value.is_string()) {
      changed[pointer] = value.get<std::string>() + "0";
    } else {
      changed[pointer] = value.get<uint64_t>() + 1;
    }
    refusal(changed.unflatten().dump());
  }
}

TEST(Manifest, FileNamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "manifest.json"}) {
    Manifest manifest = sample();
    manifest.files[name] = {};
    EXPECT_NE(refusal(manifest_to_text(manifest)).find("not allowed"), std::string::npos) << name;
  }
  Manifest manifest = sample();
  manifest.files[std::string("a\0b", 3)] = {};
  refusal(manifest_to_text(manifest));
}

TEST(Manifest, WrongStructureIsRefusedEvenWhenSealed) {
  for (const char* text : {"", "null", "[]", "{}", "{\"version\":1}", "x"}) refusal(text);
  const json whole = json::parse(manifest_to_text(sample()));
  const auto changed = [&](const char* pointer, const json& value) {
    json fields = whole;
    fields[json::json_pointer(pointer)] = value;
    refusal(sealed(fields));
  };
  changed("/version", 2);
  changed("/version", "1");
  for (const json& value : {json(-1), json(1.0), json("1"), json(nullptr), json(UINT64_MAX)}) {
    changed("/step", value);
  }
  changed("/fingerprint", 1);
  changed("/program", nullptr);
  changed("/files", json::array());
  changed("/files/state.json", 1);
  changed("/files/state.json", json::object());
  changed("/files/state.json/size", -1);
  changed("/files/state.json/size", "1");
  for (const char* crc : {"", "0", "0000000g", "DEADBEEF", "0xdeadbe", "000000000"}) {
    changed("/files/state.json/crc32c", crc);
  }
  for (const char* key : {"step", "fingerprint", "program", "files", "version"}) {
    json fields = whole;
    fields.erase(key);
    refusal(sealed(fields));
  }
  json fields = whole;
  fields.erase("checksum");
  refusal(fields.dump());
  fields["checksum"] = 1;
  refusal(fields.dump());
}

TEST(Manifest, AnotherVersionSaysSo) {
  json fields = json::parse(manifest_to_text(sample()));
  fields["version"] = 2;
  EXPECT_NE(refusal(sealed(fields)).find("version 2"), std::string::npos);
}

TEST(Manifest, IsWrittenIntoTheFolder) {
  const TemporaryFolder folder;
  write_manifest(folder.path(), sample());
  EXPECT_EQ(read_file(folder / kManifestFile), manifest_to_text(sample()));
  error_of(ErrorKind::kIo, [&] { write_manifest(folder / "missing", sample()); });
}

}  // namespace
}  // namespace lmtrain
