#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "base/hash.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

// Four elements share 64 random bits; an element falls out where its 16 bits are below
// threshold(p).
constexpr int64_t kOfWord = 4;

uint64_t threshold(double p) { return static_cast<uint64_t>(std::lround(p * 65536)); }
double scale_of_kept(double p) { return 65536.0 / (65536.0 - static_cast<double>(threshold(p))); }

uint64_t random_word(uint64_t key, uint64_t site, uint64_t word) {
  return mix64(hash_combine(key, site) + word);
}

template <class T>
void drop(const T* x, T* y, int64_t size, uint64_t key, uint64_t site, double p) {
  const uint64_t least = threshold(p);
  const auto scale = static_cast<float>(scale_of_kept(p));
  for (int64_t begin = 0, word = 0; begin < size; begin += kOfWord, ++word) {
    uint64_t bits = random_word(key, site, static_cast<uint64_t>(word));
    for (int64_t i = begin; i < std::min(size, begin + kOfWord); ++i, bits >>= 16)
      y[i] = (bits & 0xFFFF) < least ? T(0) : static_cast<T>(static_cast<float>(x[i]) * scale);
  }
}

// mix64 of int64 tensors, whose arithmetic wraps around.
at::Tensor mixed(const at::Tensor& x) {
  const auto shifted = [](const at::Tensor& value, int64_t bits) {
    return value.bitwise_right_shift(bits).bitwise_and((int64_t{1} << (64 - bits)) - 1);
  };
  const auto constant = [](uint64_t bits) { return static_cast<int64_t>(bits); };
  at::Tensor y = x + constant(0x9E3779B97F4A7C15ULL);
  y = y.bitwise_xor(shifted(y, 30)) * constant(0xBF58476D1CE4E5B9ULL);
  y = y.bitwise_xor(shifted(y, 27)) * constant(0x94D049BB133111EBULL);
  return y.bitwise_xor(shifted(y, 31));
}

// By ATen's operators: bool, of the shape of x, whether an element is kept.
at::Tensor kept(const at::Tensor& x, const at::Tensor& keys_B, int64_t site, double p) {
  const int64_t row = x.numel() / x.size(0);
  const int64_t words = (row + kOfWord - 1) / kOfWord;
  const auto of_site = static_cast<int64_t>(mix64(static_cast<uint64_t>(site)));
  const at::Tensor first = mixed(keys_B.bitwise_xor(of_site)).unsqueeze(1);
  const at::Tensor bits = mixed(first + at::arange(words, keys_B.options())).unsqueeze(2);
  const at::Tensor each =
      bits.bitwise_right_shift(at::arange(kOfWord, keys_B.options()) * 16).bitwise_and(0xFFFF);
  return each.flatten(1).narrow(1, 0, row).ge(static_cast<int64_t>(threshold(p))).view(x.sizes());
}

at::Tensor dropped(const at::Tensor& x, const at::Tensor& keys_B, int64_t site, double p) {
  if (!has_cpu_kernel(x)) return dropout_reference(x, keys_B, site, p);
  at::Tensor y = at::empty_like(x);
  const int64_t rows = x.size(0), width = x.numel() / std::max<int64_t>(1, rows);
  const auto* keys = elements<int64_t>(keys_B);
  const auto run = [&]<class T>(T) {
    at::parallel_for(0, rows, grain_rows(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        drop(elements<T>(x) + row * width, elements<T>(y) + row * width, width,
             static_cast<uint64_t>(keys[row]), static_cast<uint64_t>(site), p);
      }
    });
  };
  x.scalar_type() == at::kFloat ? run(float{}) : run(c10::BFloat16{});
  return y;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& keys_B, int64_t site, double p) {
    context->save_for_backward({keys_B});
    context->saved_data["site"] = site;
    context->saved_data["p"] = p;
    return dropped(x.contiguous(), keys_B, site, p);
  }

  // An element that is 0 has no gradient; the others have the same factor as in the forward.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    return {dropped(grads[0].contiguous(), context->get_saved_variables()[0],
                    context->saved_data["site"].toInt(), context->saved_data["p"].toDouble()),
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, const at::Tensor& keys, int64_t site, double p) {
  return DropoutFunction::apply(x, keys, site, p);
}

at::Tensor dropout_reference(const at::Tensor& x, const at::Tensor& keys, int64_t site, double p) {
  return (x * scale_of_kept(p)).masked_fill(kept(x, keys, site, p).logical_not(), 0);
}

}  // namespace lmtrain
