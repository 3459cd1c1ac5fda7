#include "base/joint_file.h"

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/file_pieces.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPart = 1000;  // bytes; no divisor of a page
constexpr int kRounds = 12;     // three pages for each process

std::string part_of(int rank) { return std::string(kPart, static_cast<char>(1 + rank % 251)); }

size_t offset_of(int round, int rank, int count) {
  return (static_cast<size_t>(round) * static_cast<size_t>(count) + static_cast<size_t>(rank)) *
         kPart;
}

}  // namespace

void create_joint_file(const fs::path& path, int count) {
  create_file_of_size(path, offset_of(kRounds, 0, count));
}

bool write_in_joint_file(const fs::path& path, int rank, int count) {
  try {
    PieceWriter writer(path);
    for (int round = 0; round < kRounds; ++round)
      writer.write(offset_of(round, rank, count), part_of(rank));
    writer.finish();
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool holds_writes(const fs::path& path, const std::vector<int>& ranks, int count) {
  const std::string bytes = read_file(path);
  if (bytes.size() != offset_of(kRounds, 0, count)) return false;
  for (const int rank : ranks) {
    for (int round = 0; round < kRounds; ++round) {
      if (bytes.compare(offset_of(round, rank, count), kPart, part_of(rank)) != 0) return false;
    }
  }
  return true;
}

}  // namespace lmtrain
