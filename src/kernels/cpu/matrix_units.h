// Multiplies small matrices of bf16 pairs on Intel's matrix units (AMX: Intel 64 and IA-32
// Architectures Optimization Reference Manual, chapter 20). A tile register has 16 rows of 64
// bytes: 16 fp32 sums in each, or 16 pairs. Compiled for the instruction set "amx" alone.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/units.h"

namespace lmtrain::LMTRAIN_ISA {

inline constexpr int64_t kTileSide = 16;  // rows of a tile register, and its pairs or sums in a row

// Packs pairs like Bf16DotPairs. The pairs of a row of a left operand are contiguous (unit_stride
// 1), as a tile register needs them.
struct Bf16MatrixUnits : Bf16DotPairs {
  // Gives the tile registers of this thread their sizes, until the object ends. Tiles 0 to 5 are
  // whole. Tile 6 has 8 pairs a row, tile 7 has 8 rows. A thread has one Registers at a time, and
  // calls no library meanwhile.
  class Registers {
   public:
    Registers() { _tile_loadconfig(&kSizes); }
    Registers(const Registers&) = delete;
    Registers& operator=(const Registers&) = delete;
    ~Registers() { _tile_release(); }

   private:
    struct Configuration {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    };
    static constexpr Configuration sizes() {
      constexpr int kHalfLeft = 6, kHalfRight = 7;
      Configuration tiles;
      for (int i = 0; i < 8; ++i) {
        tiles.rows[i] = i == kHalfRight ? kTileSide / 2 : kTileSide;
        tiles.row_bytes[i] = i == kHalfLeft ? 2 * kTileSide : 4 * kTileSide;
      }
      return tiles;
    }
    // Not a local variable: GCC 12's intrinsic declares that it reads eight bytes.
    static const Configuration kSizes;
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

inline constexpr Bf16MatrixUnits::Registers::Configuration Bf16MatrixUnits::Registers::kSizes =
    Bf16MatrixUnits::Registers::sizes();

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

// Computes c = a b, or c += a b if `add`: one or two tiles of rows, and of columns. Calls beside()
// as often as multiply_tile() does for as many numbers.
template <int kRowTiles, int kColumnTiles, class F>
[[gnu::always_inline]] inline void multiply_tiles(const TileProduct& x, bool add, F& beside) {
  constexpr int64_t kBytes = 4;
  const int64_t a_bytes = x.a_stride * kBytes, b_bytes = x.b_stride * kBytes;
  const int64_t c_bytes = x.c_stride * kBytes;
  float* const lower = x.c + kTileSide * x.c_stride;
  // GCC 12's _tile_loadd does not declare that it reads memory: what was written must be there.
  __asm__ volatile("" ::: "memory");
  if (add) {
    _tile_loadd(0, x.c, c_bytes);
    if constexpr (kColumnTiles == 2) _tile_loadd(1, x.c + kTileSide, c_bytes);
    if constexpr (kRowTiles == 2) _tile_loadd(2, lower, c_bytes);
    if constexpr (kRowTiles * kColumnTiles == 4) _tile_loadd(3, lower + kTileSide, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kColumnTiles == 2) _tile_zero(1);
    if constexpr (kRowTiles == 2) _tile_zero(2);
    if constexpr (kRowTiles * kColumnTiles == 4) _tile_zero(3);
  }
  const uint32_t *a = x.a, *b = x.b;
  int64_t depth = x.depth;
  for (; depth >= kTileSide; depth -= kTileSide, a += kTileSide, b += kTileSide * x.b_stride) {
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(5, b, b_bytes);
    _tile_dpbf16ps(0, 4, 5);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(4, a + kTileSide * x.a_stride, a_bytes);
      _tile_dpbf16ps(2, 4, 5);
    }
    if constexpr (kColumnTiles == 2) {
      _tile_loadd(5, b + kTileSide, b_bytes);
      if constexpr (kRowTiles == 2) {
        _tile_dpbf16ps(3, 4, 5);
        _tile_loadd(4, a, a_bytes);
      }
      _tile_dpbf16ps(1, 4, 5);
    }
    for (int i = 0; i < 4 * kRowTiles * kColumnTiles; ++i) beside();
  }
  if (depth > 0) {
    _tile_loadd(6, a, a_bytes);
    _tile_loadd(7, b, b_bytes);
    _tile_dpbf16ps(0, 6, 7);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(6, a + kTileSide * x.a_stride, a_bytes);
      _tile_dpbf16ps(2, 6, 7);
    }
    if constexpr (kColumnTiles == 2) {
      _tile_loadd(7, b + kTileSide, b_bytes);
      if constexpr (kRowTiles == 2) {
        _tile_dpbf16ps(3, 6, 7);
        _tile_loadd(6, a, a_bytes);
      }
      _tile_dpbf16ps(1, 6, 7);
    }
    for (int i = 0; i < 2 * kRowTiles * kColumnTiles; ++i) beside();
  }
  _tile_stored(0, x.c, c_bytes);
  if constexpr (kColumnTiles == 2) _tile_stored(1, x.c + kTileSide, c_bytes);
  if constexpr (kRowTiles == 2) _tile_stored(2, lower, c_bytes);
  if constexpr (kRowTiles * kColumnTiles == 4) _tile_stored(3, lower + kTileSide, c_bytes);
}

}  // namespace lmtrain::LMTRAIN_ISA
