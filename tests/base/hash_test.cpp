#include "base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace lmtrain {
namespace {

uint32_t crc_of(const std::string& bytes) { return crc32c(0, bytes.data(), bytes.size()); }

// Straight from the definition, one bit at a time: the oracle of the fast ones.
uint32_t crc_by_bits(const std::string& bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc_of(""), 0U);
  EXPECT_EQ(crc_of("123456789"), 0xE3069283U);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc_of(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  EXPECT_EQ(crc_of(rising), 0x46DD794EU);
  EXPECT_EQ(crc_of(std::string(rising.rbegin(), rising.rend())), 0x113FDB5CU);
}

TEST(Crc32c, OfTwoTextsIsJoinedFromThoseOfEach) {
  std::mt19937_64 random(3);
  std::string bytes(70'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (const size_t cut : {0UL, 1UL, 4UL, 255UL, 4096UL, 65'537UL, bytes.size()}) {
    const std::string first = bytes.substr(0, cut), second = bytes.substr(cut);
    EXPECT_EQ(joined_crc32c(crc_of(first), crc_of(second), second.size()), crc_of(bytes)) << cut;
  }
  // 2^40 zeros, as so many joined halves.
  uint32_t zeros = crc_of(std::string(1, '\0'));
  for (uint64_t size = 1; size < uint64_t{1} << 40; size *= 2)
    zeros = joined_crc32c(zeros, zeros, size);
  const uint32_t seven = crc_of("seven");
  uint32_t by_parts = seven;
  for (int half = 0; half < 2; ++half) {
    uint32_t part = crc_of(std::string(1, '\0'));
    for (uint64_t size = 1; size < uint64_t{1} << 39; size *= 2)
      part = joined_crc32c(part, part, size);
    by_parts = joined_crc32c(by_parts, part, uint64_t{1} << 39);
  }
  EXPECT_EQ(joined_crc32c(seven, zeros, uint64_t{1} << 40), by_parts);
}

// Many bytes are summed in three parts at once.
TEST(Crc32c, OfManyBytesEqualsTheDefinition) {
  std::mt19937_64 random(2);
  std::string bytes(50'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (const size_t size : {12'287UL, 12'288UL, 12'289UL, 24'575UL, 24'576UL, 36'865UL, 50'000UL}) {
    EXPECT_EQ(crc_of(bytes.substr(0, size)), crc_by_bits(bytes.substr(0, size))) << size;
    EXPECT_EQ(crc32c(crc_of("some"), bytes.data(), size), crc_of("some" + bytes.substr(0, size)));
  }
}

TEST(Crc32c, EqualsTheDefinitionAtEveryLengthAndAlignment) {
  std::mt19937_64 random(1);
  std::string bytes(200, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; size < 100; ++size) {
      ASSERT_EQ(crc32c(0, bytes.data() + begin, size), crc_by_bits(bytes.substr(begin, size)));
    }
  }
}

TEST(Crc32c, ExtendsOverParts) {
  const std::string bytes = "some bytes that arrive in two parts";
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = crc32c(0, bytes.data(), cut);
    EXPECT_EQ(crc32c(first, bytes.data() + cut, bytes.size() - cut), crc_of(bytes));
  }
}

TEST(Hash128, KnownVectors) {
  // From the Python package mmh3, hash64(bytes, seed 0, x64).
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(hash128(""), (Hash128{0, 0}));
  EXPECT_EQ(hash128("a"), (Hash128{0x85555565F6597889, 0xE6B53A48510E895A}));
  EXPECT_EQ(hash128("hello"), (Hash128{0xCBD8A7B341BD9B02, 0x5B1E906A48AE1D19}));
  EXPECT_EQ(hash128("hello, world"), (Hash128{0x342FAC623A5EBC8E, 0x4CDCBC079642414D}));
  EXPECT_EQ(hash128("0123456789abcdef"), (Hash128{0x4BE06D94CF4AD1A7, 0x87C35B5C63A708DA}));
  EXPECT_EQ(hash128("The quick brown fox jumps over the lazy dog"),
            (Hash128{0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347}));
  EXPECT_EQ(hash128(all), (Hash128{0x1C99C313DC6F12B9, 0x70D6077FAB34CC1E}));
  EXPECT_EQ(hash64("hello"), 0xCBD8A7B341BD9B02U);
}

TEST(Hash128, HexHasHighDigitsFirst) {
  EXPECT_EQ((Hash128{0x1, 0xAB}).hex(), "00000000000000ab0000000000000001");
}

TEST(Mix64, IsSplitMix64) {
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFU);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15U), 0x6E789E6AA1B965F4U);
  EXPECT_EQ(mix64(1234567), 6457827717110365317U);
}

TEST(Hasher, KeepsFieldsApart) {
  const auto of = [](std::string_view a, std::string_view b) {
    return Hasher().add(a).add(b).digest();
  };
  EXPECT_EQ(of("ab", "c"), of("ab", "c"));
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
  EXPECT_NE(of("ab", "c"), of("c", "ab"));
  EXPECT_NE(of("ab", ""), Hasher().add("ab").digest());
}

TEST(Hasher, ATextThatIsHashedAlreadyCountsAsTheText) {
  for (const std::string_view text : {"", "a", "a text of more than one block of bytes"}) {
    EXPECT_EQ(Hasher().add("b").add_hashed(text.size(), hash128(text)).add("c").digest(),
              Hasher().add("b").add(text).add("c").digest());
  }
}

TEST(Hasher, AHashCountsAsItsTwoIntegers) {
  const Hash128 hash = hash128("a");
  EXPECT_EQ(Hasher().add(hash).digest(), Hasher().add(hash.low).add(hash.high).digest());
}

TEST(Hasher, NeverChanges) {
  EXPECT_EQ(Hasher().add("corpus").add(uint64_t{42}).digest().hex(),
            "9d951cf5a5a7ba8fbb5ada3c3ff953f1");
}

}  // namespace
}  // namespace lmtrain
