// A damaged safetensors file alone, without a manifest, cannot always be told from a sound one (a
// flipped bit in a weight is a weight): it is refused, or keeps every rule of the format.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "base/support.h"
#include "formats/damage.h"
#include "formats/safetensors.h"
#include "formats/safetensors_support.h"

namespace lmtrain {
namespace {

TEST(SafetensorsDamage, IsRefusedOrHarmless) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(2);
  for (int round = 0; round < 5; ++round) {
    testing::OwnedTensors tensors = testing::random_tensors(random, 6);
    tensors["always"] = {DType::kF32, {2, 3}, testing::random_bytes(random, 24)};
    testing::write_tensors(folder / "file", tensors, {{"format", "pt"}});
    const std::string whole = read_file(folder / "file");
    uint64_t header_size = 0;
    std::memcpy(&header_size, whole.data(), sizeof header_size);
    int refused = 0;
    testing::for_each_damage(
        whole, 8 + header_size, [&](const std::string& bytes, const std::string& what) {
          std::map<std::string, std::string> metadata;
          try {
            const auto read = parse_safetensors(bytes, "file", metadata);
            EXPECT_EQ(bytes.size(), whole.size()) << what;
            testing::expect_rules_hold(bytes, read);
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::kData) << what << ": " << error.what();
            ++refused;
          }
        });
    EXPECT_GT(refused, 500);
  }
}

}  // namespace
}  // namespace lmtrain
