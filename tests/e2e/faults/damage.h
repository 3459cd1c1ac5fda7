// One damage to a file of a folder: a flipped bit, a cut, a file that is gone, and the like.
#pragma once

#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace lmtrain::testing {

enum class DamageKind { kFlip, kCut, kDelete, kSwap, kZeros, kAppend, kForeign };
inline constexpr std::array<const char*, 7> kDamageNames = {"flip",  "cut",    "delete", "swap",
                                                            "zeros", "append", "foreign"};

struct DamageDone {
  DamageKind kind = DamageKind::kFlip;
  std::filesystem::path file;   // that is damaged
  std::filesystem::path other;  // for kSwap: the file that has its content now
  std::string detail;           // for people: "bit 3 of byte 17"
  bool changed = false;         // the bytes are not what they were
};

// Damages one file below `folders`, each as likely as the other. kSwap exchanges two files of one
// folder; kForeign puts the content of a file of the same name, from another folder below, in its
// place.
DamageDone damage_a_file(const std::vector<std::filesystem::path>& folders,
                         std::mt19937_64& random);

}  // namespace lmtrain::testing
