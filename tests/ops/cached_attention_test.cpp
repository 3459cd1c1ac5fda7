#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "ops/operators.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::largest_difference;
using testing::random_tensor;
using testing::same_bits;

// Heads, key/value heads, head size.
struct Heads {
  int64_t heads, kv_heads, size;
};

struct Angles {
  Angles(int64_t length, int64_t head_size) {
    const at::Tensor angles = random_tensor({length, head_size / 2}, 5);
    cos = angles.cos();
    sin = angles.sin();
  }
  at::Tensor cos, sin;  // fp32, a row a position
};

// rope_attention of whole rows against the same positions in two parts: the first at once, the
// others one by one. Rows of `lengths`, of which `begun` positions are the first part.
void check_positions_one_by_one(const Heads& heads, const std::vector<int64_t>& lengths,
                                const std::vector<int64_t>& begun, at::ScalarType dtype,
                                double tolerance) {
  const at::NoGradGuard no_grad;
  const auto rows = static_cast<int64_t>(lengths.size());
  const int64_t room = 40;
  const int64_t width = (heads.heads + 2 * heads.kv_heads) * heads.size;
  const Angles angles(room, heads.size);
  // What no position has written is as large as a number may be.
  const at::Tensor keys = at::full({rows, heads.kv_heads, room, heads.size}, 1e30).to(dtype);
  const at::Tensor values = at::full_like(keys, -1e30);
  const auto attend = [&](const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                          int64_t first, int64_t count, int64_t length,
                          const std::optional<at::Tensor>& positions,
                          const std::optional<at::Tensor>& mask) {
    return cached_rope_attention(qkv, cos, sin, heads.heads, heads.kv_heads,
                                 keys.narrow(0, first, count).narrow(2, 0, length),
                                 values.narrow(0, first, count).narrow(2, 0, length), positions,
                                 mask);
  };
  std::vector<at::Tensor> whole, qkv;
  int64_t steps = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = lengths[row], first = begun[row];
    qkv.push_back(random_tensor({1, length, width}, 10 + row, dtype));
    whole.push_back(rope_attention(qkv[row], angles.cos.narrow(0, 0, length),
                                   angles.sin.narrow(0, 0, length), heads.heads, heads.kv_heads,
                                   std::nullopt));
    const at::Tensor cos = angles.cos.narrow(0, 0, first), sin = angles.sin.narrow(0, 0, first);
    const at::Tensor beginning = qkv[row].narrow(1, 0, first);
    EXPECT_TRUE(
        same_bits(attend(beginning, cos, sin, row, 1, first, std::nullopt, std::nullopt),
                  rope_attention(beginning, cos, sin, heads.heads, heads.kv_heads, std::nullopt)));
    steps = length - first;  // the same for every row
  }
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<at::Tensor> parts;
    std::vector<int64_t> at;
    for (int64_t row = 0; row < rows; ++row) {
      at.push_back(begun[row] + step);
      parts.push_back(qkv[row].narrow(1, at.back(), 1));
    }
    const at::Tensor positions = at::tensor(at);
    const int64_t longest = *std::max_element(at.begin(), at.end()) + 1;
    std::optional<at::Tensor> mask;
    if (rows > 1) mask = at::arange(longest).le(positions.unsqueeze(1)).view({rows, 1, 1, longest});
    const at::Tensor y =
        attend(at::cat(parts), angles.cos.index_select(0, positions),
               angles.sin.index_select(0, positions), 0, rows, longest, positions, mask);
    for (int64_t row = 0; row < rows; ++row) {
      EXPECT_LE(largest_difference(y[row][0], whole[row][0][at[row]]), tolerance)
          << "row " << row << " position " << at[row];
    }
  }
}

TEST(CachedAttention, APositionAttendsToThoseBeforeIt) {
  for (const Heads& heads : {Heads{4, 4, 16}, Heads{6, 2, 16}, Heads{4, 1, 10}}) {
    check_positions_one_by_one(heads, {20}, {1}, at::kFloat, 1e-6);
    check_positions_one_by_one(heads, {20}, {9}, at::kDouble, 1e-12);
    check_positions_one_by_one(heads, {20}, {9}, at::kBFloat16, 2e-2);
  }
}

TEST(CachedAttention, RowsAtPositionsOfTheirOwnDoNotSeeEachOther) {
  for (const Heads& heads : {Heads{4, 4, 16}, Heads{6, 2, 16}}) {
    check_positions_one_by_one(heads, {12, 31, 20}, {1, 20, 9}, at::kFloat, 1e-6);
    check_positions_one_by_one(heads, {12, 31, 20}, {1, 20, 9}, at::kDouble, 1e-12);
  }
}

}  // namespace
}  // namespace lmtrain
