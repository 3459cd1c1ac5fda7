// Multiplies small matrices of bf16 pairs on Intel's matrix units (AMX: Intel 64 and IA-32
// Architectures Optimization Reference Manual, chapter 20). A tile register has 16 rows of 64
// bytes: 16 fp32 sums in each, or 16 pairs. Compiled for the instruction set "amx" alone.
#pragma once

#include "kernels/cpu/units.h"

namespace lmtrain::LMTRAIN_ISA {

inline constexpr int64_t kTileSide = 16;  // rows of a tile register, and its pairs or sums in a row

// The tile registers by their use: four sums, and an operand on each side that is whole or has half
// of the pairs. The intrinsics take no template's numbers, and GCC 12's declare no read of memory.
enum TileRegister {
  kUpperSums,
  kUpperRightSums,
  kLowerSums,
  kLowerRightSums,
  kLeft,
  kRight,
  kHalfLeft,
  kHalfRight,
  kTileRegisters
};

template <TileRegister tile>
[[gnu::always_inline]] inline void load_tile(const void* rows, int64_t row_bytes) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(rows), "r"(row_bytes), "i"(tile)
                   : "memory");
}
template <TileRegister tile>
[[gnu::always_inline]] inline void store_tile(void* rows, int64_t row_bytes) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(rows), "r"(row_bytes), "i"(tile)
                   : "memory");
}
template <TileRegister tile>
[[gnu::always_inline]] inline void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}
// Adds the product of two tiles of pairs to `sums`.
template <TileRegister sums, TileRegister left, TileRegister right>
[[gnu::always_inline]] inline void add_tile_product() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(left), "i"(right));
}

// Packs pairs like Bf16DotPairs. The pairs of a row of a left operand are contiguous (unit_stride
// 1), as a tile register needs them.
struct Bf16MatrixUnits : Bf16DotPairs {
  // Gives the tile registers of this thread their sizes, until the object ends. A thread has one
  // Registers at a time, and calls no library meanwhile.
  class Registers {
   public:
    Registers() {
      Configuration tiles;
      for (int i = 0; i < kTileRegisters; ++i) {
        tiles.rows[i] = i == kHalfRight ? kTileSide / 2 : kTileSide;
        tiles.row_bytes[i] = i == kHalfLeft ? 2 * kTileSide : 4 * kTileSide;
      }
      __asm__ volatile("ldtilecfg %0" : : "m"(tiles));
    }
    Registers(const Registers&) = delete;
    Registers& operator=(const Registers&) = delete;
    ~Registers() { __asm__ volatile("tilerelease"); }

   private:
    struct Configuration {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    };
    static_assert(sizeof(Configuration) == 64);
  };

  // `out` has room for 2 * padded(rows / 2) * stride units; `columns` is at most `stride`.
  static Left<Unit> by_column(const float* scores, int64_t stride, int64_t rows, int64_t columns,
                              Unit* out) {
    const int64_t pairs = padded(rows / 2);
    Unit* const by_pair = out + pairs * stride;
    Bf16DotPairs::by_column(scores, stride, rows, columns, by_pair);
    transpose(by_pair, stride, pairs, columns, out, pairs);
    return {out, pairs, 1};
  }
};

// The operands and the result of one product in tiles; rows of `c` are `c_stride` floats apart.
struct TileProduct {
  const uint32_t* a;
  int64_t a_stride;  // in pairs
  const uint32_t* b;
  int64_t b_stride;  // in pairs
  float* c;
  int64_t c_stride;
  int64_t depth;  // in pairs, a multiple of kTileSide / 2
};

inline constexpr int64_t kTileUnitBytes = 4;  // of a pair, and of a sum

// Adds the product of as many pairs as the registers for operands hold, from pair `from` on, to the
// sums.
template <int kRowTiles, int kColumnTiles, TileRegister left, TileRegister right>
[[gnu::always_inline]] inline void add_products(const TileProduct& x, int64_t from) {
  const int64_t a_bytes = x.a_stride * kTileUnitBytes, b_bytes = x.b_stride * kTileUnitBytes;
  const uint32_t *a = x.a + from, *b = x.b + from * x.b_stride;
  load_tile<left>(a, a_bytes);
  load_tile<right>(b, b_bytes);
  add_tile_product<kUpperSums, left, right>();
  if constexpr (kRowTiles == 2) {
    load_tile<left>(a + kTileSide * x.a_stride, a_bytes);
    add_tile_product<kLowerSums, left, right>();
  }
  if constexpr (kColumnTiles == 2) {
    load_tile<right>(b + kTileSide, b_bytes);
    if constexpr (kRowTiles == 2) {
      add_tile_product<kLowerRightSums, left, right>();
      load_tile<left>(a, a_bytes);
    }
    add_tile_product<kUpperRightSums, left, right>();
  }
}

// Computes c = a b, or c += a b if `add`: one or two tiles of rows, and of columns. Calls beside()
// as often as multiply_tile() of kernels/cpu/tiles.h does for as many numbers.
template <int kRowTiles, int kColumnTiles, class F>
[[gnu::always_inline]] inline void multiply_tiles(const TileProduct& x, bool add, F& beside) {
  constexpr int kTiles = kRowTiles * kColumnTiles;
  const int64_t c_bytes = x.c_stride * kTileUnitBytes;
  float *const right = x.c + kTileSide, *const lower = x.c + kTileSide * x.c_stride;
  if (add) {
    load_tile<kUpperSums>(x.c, c_bytes);
    if constexpr (kColumnTiles == 2) load_tile<kUpperRightSums>(right, c_bytes);
    if constexpr (kRowTiles == 2) load_tile<kLowerSums>(lower, c_bytes);
    if constexpr (kTiles == 4) load_tile<kLowerRightSums>(lower + kTileSide, c_bytes);
  } else {
    clear_tile<kUpperSums>();
    if constexpr (kColumnTiles == 2) clear_tile<kUpperRightSums>();
    if constexpr (kRowTiles == 2) clear_tile<kLowerSums>();
    if constexpr (kTiles == 4) clear_tile<kLowerRightSums>();
  }
  int64_t pair = 0;
  for (; pair + kTileSide <= x.depth; pair += kTileSide) {
    add_products<kRowTiles, kColumnTiles, kLeft, kRight>(x, pair);
    for (int i = 0; i < 4 * kTiles; ++i) beside();
  }
  if (pair < x.depth) {
    add_products<kRowTiles, kColumnTiles, kHalfLeft, kHalfRight>(x, pair);
    for (int i = 0; i < 2 * kTiles; ++i) beside();
  }
  store_tile<kUpperSums>(x.c, c_bytes);
  if constexpr (kColumnTiles == 2) store_tile<kUpperRightSums>(right, c_bytes);
  if constexpr (kRowTiles == 2) store_tile<kLowerSums>(lower, c_bytes);
  if constexpr (kTiles == 4) store_tile<kLowerRightSums>(lower + kTileSide, c_bytes);
}

// multiply() of kernels/cpu/tiles.h, two tiles by two where there are as many. The pairs of a row
// of `a` are contiguous.
template <class F>
void multiply_in_registers(Left<uint32_t> a, const uint32_t* b, int64_t b_stride, float* c,
                           int64_t c_stride, int64_t rows, int64_t columns, int64_t depth, bool add,
                           Part part, F& beside) {
  constexpr int64_t kTwo = 2 * kTileSide;
  for (int64_t row = 0; row < rows; row += kTwo) {
    const bool two_rows = row + kTwo <= rows;
    const int64_t end = smaller(row + kTwo, rows);
    const int64_t wanted = part == Part::kLowerResult ? smaller(end, columns) : columns;
    const int64_t first = part == Part::kUpperLeft ? row / 2 : 0;
    const int64_t last = part == Part::kLowerLeft ? smaller(end / 2, depth) : depth;
    for (int64_t column = 0; column < wanted; column += kTwo) {
      const bool two_columns = column + kTwo <= wanted;
      const TileProduct product = {a.data + row * a.row_stride + first,
                                   a.row_stride,
                                   b + first * b_stride + column,
                                   b_stride,
                                   c + row * c_stride + column,
                                   c_stride,
                                   last - first};
      if (two_rows && two_columns) {
        multiply_tiles<2, 2>(product, add, beside);
      } else if (two_rows) {
        multiply_tiles<2, 1>(product, add, beside);
      } else if (two_columns) {
        multiply_tiles<1, 2>(product, add, beside);
      } else {
        multiply_tiles<1, 1>(product, add, beside);
      }
    }
  }
}

}  // namespace lmtrain::LMTRAIN_ISA
