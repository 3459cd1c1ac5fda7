// Where a long document is cut into blocks: at offsets that follow from the text around them alone,
// so that copies of a text are cut alike wherever they lie, and their blocks have equal hashes. The
// rule is that of local maximum chunking (N. Bjorner, A. Blass, Y. Gurevich, "Content-Dependent
// Chunking for Differential Compression: The Local Maximum Approach", 2010), with the least key in
// place of the largest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace lmtrain {

// Finds the cuts of a sequence: positions whose key is smaller than every key up to `reach` before
// it, and at most every key up to `reach` behind it; two cuts are more than `reach` apart. None is
// nearer than `reach` to either end.
class ContentCuts {
 public:
  // A key is a hash of this many bytes that end at the position.
  static constexpr size_t kWindowBytes = 32;

  ContentCuts(uint64_t reach, uint64_t size) : reach_(reach), size_(size) {}
  // Positions ascend.
  void add(uint64_t position, uint64_t key);
  // After all positions: the cuts, ascending.
  std::vector<uint64_t> finish();

 private:
  struct Position {
    uint64_t at = 0;
    uint64_t key = 0;
  };
  uint64_t reach_;
  uint64_t size_;
  // Positions within reach of the last one, with ascending keys.
  std::deque<Position> least_;
  // The last of the cuts may still lose to a position behind it.
  std::vector<Position> cuts_;
};

// The key of the position behind `bytes`, of which the last kWindowBytes count.
uint64_t content_key(std::string_view bytes);

// Where the blocks of a text end. A block has from `block` / 2 to `block` * 1.5 bytes; a text of at
// most `block` * 1.5, an empty one too, is one block. Ends lie behind newlines where there are any
// near by, else between two characters: at content cuts, and where those are too far apart, behind
// the last newline of the second half of `block` bytes.
std::vector<size_t> block_ends(std::string_view text, uint64_t block);

}  // namespace lmtrain
