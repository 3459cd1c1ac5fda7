#include <random>

#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
using testing::Operator;
using testing::random_tensor;

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                const std::optional<at::Tensor>&);

struct Shape {
  int64_t batch, length, heads, kv_heads, size;
};

// Leaves: [B, T, heads, E] in memory.
std::vector<at::Tensor> inputs(const Shape& shape, uint64_t seed) {
  const auto heads = [&](int64_t count, uint64_t offset) {
    return random_tensor({shape.batch, shape.length, count, shape.size}, seed + offset);
  };
  return {heads(shape.heads, 0), heads(shape.kv_heads, 1000), heads(shape.kv_heads, 2000)};
}

Operator of(Function function, const std::optional<at::Tensor>& segments) {
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{
        function(in[0].transpose(1, 2), in[1].transpose(1, 2), in[2].transpose(1, 2), segments)};
  };
}

// rope_attention of vectors that are rotated by nothing.
at::Tensor attention_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& segments) {
  const at::Tensor qkv = at::cat({q, k, v}, 1).transpose(1, 2).flatten(2);
  const at::Tensor cos =
      at::ones({segments ? q.size(0) * q.size(2) : q.size(2), q.size(3) / 2}, at::kFloat);
  return rope_attention(qkv, cos, at::zeros_like(cos), q.size(1), k.size(1), segments)
      .unflatten(-1, {q.size(1), -1})
      .transpose(1, 2);
}

// ATen's composition sums the gradients of keys and values over positions and heads in bf16.
constexpr double kSummedInBf16 = 5e-2;

at::Tensor bounds(const std::vector<int32_t>& begins) { return at::tensor(begins, at::kInt); }

// Every row's first position, and others with probability `density`.
at::Tensor random_segments(const Shape& shape, double density, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> segments;
  for (int64_t position = 0; position < shape.batch * shape.length; ++position) {
    const bool begins = static_cast<double>(random() % 1000) < 1000 * density;
    if (position % shape.length == 0 || begins) segments.push_back(static_cast<int32_t>(position));
  }
  segments.push_back(static_cast<int32_t>(shape.batch * shape.length));
  return bounds(segments);
}

// The definition, in double, a row of scores at a time.
at::Tensor by_definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& segments) {
  const at::Tensor y = at::empty_like(q);
  const int64_t length = q.size(2);
  const int64_t group = q.size(1) / k.size(1);
  for (int64_t b = 0; b < q.size(0); ++b) {
    for (int64_t t = 0; t < length; ++t) {
      int64_t begin = 0;
      for (int64_t i = 0; i + 1 < segments.numel(); ++i) {
        const int64_t position = segments[i].item<int64_t>() - b * length;
        if (position <= t) begin = std::max(begin, position);
      }
      for (int64_t h = 0; h < q.size(1); ++h) {
        const at::Tensor keys = k[b][h / group].narrow(0, begin, t + 1 - begin);
        const at::Tensor values = v[b][h / group].narrow(0, begin, t + 1 - begin);
        const at::Tensor scores = keys.mv(q[b][h][t]) / std::sqrt(static_cast<double>(q.size(3)));
        y[b][h][t] = values.t().mv(at::softmax(scores, 0));
      }
    }
  }
  return y;
}

TEST(Attention, ReferenceIsTheDefinition) {
  const Shape shape = {2, 9, 4, 2, 6};
  const auto in = inputs(shape, 1);
  const auto heads = [&](size_t i) { return in[i].transpose(1, 2).to(at::kDouble); };
  for (const double density : {0.0, 0.3, 1.0}) {
    const at::Tensor segments = random_segments(shape, density, 5);
    const at::Tensor expected = by_definition(heads(0), heads(1), heads(2), segments);
    EXPECT_LE(testing::largest_difference(
                  attention_reference(heads(0), heads(1), heads(2), segments), expected),
              1e-12);
    if (density == 0) {
      EXPECT_LE(testing::largest_difference(
                    attention_reference(heads(0), heads(1), heads(2), std::nullopt), expected),
                1e-12);
    }
  }
}

TEST(Attention, EqualsItsReferenceOverShapesAndSegments) {
  const std::vector<Shape> shapes = {{1, 1, 1, 1, 2},   {1, 5, 4, 4, 6},   {3, 16, 4, 2, 6},
                                     {2, 33, 8, 1, 10}, {1, 65, 3, 3, 64}, {5, 1, 6, 3, 34},
                                     {2, 130, 6, 2, 16}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (const double density : {0.0, 0.02, 0.2, 1.0}) {
      SCOPED_TRACE(::testing::Message() << "shape " << i << " density " << density);
      const at::Tensor segments = random_segments(shapes[i], density, i);
      check_operator(of(attention_on_cpu, segments), of(attention_reference, segments),
                     inputs(shapes[i], i), kSummedInBf16);
    }
  }
}

// Around the blocks that positions are taken in.
TEST(Attention, EqualsItsReferenceOnLongSegments) {
  const Shape shape = {1, 1200, 4, 2, 16};
  const at::Tensor segments = bounds({0, 255, 256, 320, 449, 450, 1200});
  check_operator(of(attention_on_cpu, segments), of(attention_reference, segments),
                 inputs(shape, 3), kSummedInBf16);
}

TEST(Attention, WithoutSegmentsItIsCausalOverTheRow) {
  const Shape shape = {2, 40, 4, 2, 16};
  check_operator(of(attention_on_cpu, std::nullopt), of(attention_reference, bounds({0, 40, 80})),
                 inputs(shape, 4), kSummedInBf16);
}

TEST(Attention, ReferenceHasTheGradientOfItsValue) {
  const Shape shape = {2, 6, 4, 2, 4};
  check_gradient(of(attention_reference, bounds({0, 2, 3, 6, 12})), inputs(shape, 6));
}

// What one segment holds has no part in another, not even where it is not a number.
TEST(Attention, NaNStaysInItsSegment) {
  const Shape shape = {1, 12, 4, 2, 8};
  const at::Tensor segments = bounds({0, 5, 8, 12});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    auto in = inputs(shape, 7);
    for (at::Tensor& input : in) input[0][6].fill_(std::numeric_limits<float>::quiet_NaN());
    const auto outcome = testing::run_operator(of(attention_on_cpu, segments), in, dtype);
    const auto isnan = [&](const at::Tensor& x_BTHE, int64_t begin, int64_t end) {
      return x_BTHE.narrow(1, begin, end - begin).isnan().any().item<bool>();
    };
    const at::Tensor y = outcome.outputs[0].transpose(1, 2);
    EXPECT_TRUE(isnan(y, 5, 8));
    EXPECT_FALSE(isnan(y, 0, 5) || isnan(y, 8, 12));
    for (const at::Tensor& gradient : outcome.gradients) {
      EXPECT_FALSE(isnan(gradient, 0, 5) || isnan(gradient, 8, 12));
    }
  }
}

TEST(Attention, BitsDoNotDependOnThreads) {
  const Shape shape = {2, 700, 4, 2, 16};
  check_thread_independence(
      of(attention_on_cpu, bounds({0, 300, 301, 350, 352, 700, 956, 1100, 1400})),
      inputs(shape, 8));
}

using RopeFunction = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                    int64_t, int64_t, const std::optional<at::Tensor>&);

// The angles are not smooth in position on purpose: a row that takes its neighbour's shows. A row
// for each position of a row or, with segments, of the batch.
Operator of(RopeFunction function, const Shape& shape, const std::optional<at::Tensor>& segments) {
  const int64_t rows = segments ? shape.batch * shape.length : shape.length;
  const at::Tensor angle = 3 * random_tensor({rows, shape.size / 2}, 77);
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{
        function(in[0], angle.cos(), angle.sin(), shape.heads, shape.kv_heads, segments)};
  };
}

// Half as large as the inputs above: rotated vectors are rounded before scores are taken of them.
at::Tensor random_qkv(const Shape& shape, uint64_t seed) {
  return random_tensor({shape.batch, shape.length, (shape.heads + 2 * shape.kv_heads) * shape.size},
                       seed) /
         2;
}

TEST(RopeAttention, EqualsItsReferenceOverShapesAndSegments) {
  const std::vector<Shape> shapes = {{1, 1, 1, 1, 2},   {1, 5, 4, 4, 6},   {3, 16, 4, 2, 6},
                                     {2, 33, 8, 1, 10}, {1, 65, 3, 3, 64}, {5, 1, 6, 3, 34},
                                     {2, 130, 6, 2, 16}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<std::optional<at::Tensor>> ways = {std::nullopt};
    for (const double density : {0.0, 0.2, 1.0})
      ways.emplace_back(random_segments(shapes[i], density, i));
    for (const auto& segments : ways) {
      SCOPED_TRACE(::testing::Message()
                   << "shape " << i << ", segments " << (segments ? segments->numel() - 1 : 0));
      check_operator(of(rope_attention, shapes[i], segments),
                     of(rope_attention_reference, shapes[i], segments), {random_qkv(shapes[i], i)},
                     kSummedInBf16);
    }
  }
}

// Queries of one task that begin within a segment, and blocks of keys before them.
TEST(RopeAttention, EqualsItsReferenceOnLongSegments) {
  const Shape shape = {1, 1200, 4, 2, 16};
  const at::Tensor segments = bounds({0, 255, 256, 320, 449, 450, 1200});
  check_operator(of(rope_attention, shape, segments), of(rope_attention_reference, shape, segments),
                 {random_qkv(shape, 40)}, kSummedInBf16);
}

TEST(RopeAttention, ReadsAnInputAndAGradientThatAreNotContiguous) {
  const Shape shape = {2, 7, 4, 2, 6};
  const auto strided = [&](RopeFunction function) {
    return [op = of(function, shape, std::nullopt)](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{op({in[0].transpose(0, 1)})[0].transpose(0, 2).contiguous()};
    };
  };
  check_operator(strided(rope_attention), strided(rope_attention_reference),
                 {random_qkv({7, 2, 4, 2, 6}, 42)}, kSummedInBf16);
}

TEST(RopeAttention, ReferenceHasTheGradientOfItsValue) {
  const Shape shape = {2, 3, 2, 1, 4};
  check_gradient(of(rope_attention_reference, shape, std::nullopt), {random_qkv(shape, 43)});
}

TEST(RopeAttention, BitsDoNotDependOnThreads) {
  const Shape shape = {2, 700, 4, 2, 16};
  check_thread_independence(
      of(rope_attention, shape, bounds({0, 300, 301, 350, 352, 700, 956, 1100, 1400})),
      {random_qkv(shape, 44)});
}

}  // namespace
}  // namespace lmtrain
