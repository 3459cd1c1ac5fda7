// Cuts a long document into blocks. Only the text around an offset decides whether a cut lies
// there. So copies of a text get the same cuts wherever they lie, and their blocks have equal
// hashes. The rule is local maximum chunking (N. Bjorner, A. Blass, Y. Gurevich, "Content-Dependent
// Chunking for Differential Compression: The Local Maximum Approach", 2010), with the least key in
// place of the largest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace lmtrain {

// Finds the cuts of a sequence of `size` bytes or ids. A position is a cut if its key is smaller
// than every key within `reach` before it, and no larger than any key within `reach` after it. Two
// cuts are more than `reach` apart, and no cut is nearer than `reach` to either end.
class ContentCuts {
 public:
  // A key is a hash of this many bytes that end at the position.
  static constexpr size_t kWindowBytes = 32;

  ContentCuts(uint64_t reach, uint64_t size) : reach_(reach), size_(size) {}
  // Adds a position and its key. Positions must ascend.
  void add(uint64_t position, uint64_t key);
  // Returns the cuts, ascending. Call it after all positions were added.
  std::vector<uint64_t> finish();

 private:
  struct Position {
    uint64_t at = 0;
    uint64_t key = 0;
  };
  uint64_t reach_;
  uint64_t size_;
  // Positions within reach of the newest one, with ascending keys.
  std::deque<Position> least_;
  // A later position within reach that has a smaller key still replaces the last cut.
  std::vector<Position> cuts_;
};

// Returns the key of the position after `bytes`: a hash of their last kWindowBytes bytes, or of all
// where there are fewer.
uint64_t content_key(std::string_view bytes);

// Returns the offsets at which the blocks of a text end, ascending; the last is the size of the
// text. `block` is in bytes and not 0. A block has from `block` / 2 to `block` * 1.5 bytes; a text
// of at most `block` * 1.5 bytes, an empty one too, is one block. Blocks end at content cuts, which
// lie after newlines, or between two characters where no newline is near. Where two cuts are too
// far apart, a block ends after its last newline between `block` / 2 and `block` bytes. Without a
// newline there it ends at the last end of a character within `block` bytes.
std::vector<size_t> block_ends(std::string_view text, uint64_t block);

}  // namespace lmtrain
