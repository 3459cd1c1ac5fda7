// bench_operators [--rounds N] [--threads N] [--length T]
//
// Milliseconds of every operator, forward and backward, beside the ATen composition it replaces, on
// 4,096 positions of a model of hidden size 256 (4 heads, intermediate 704, vocabulary 8192), in
// fp32 and bf16. The two take turns within a round; minima and the median of the rounds' ratios,
// above 1 the operator is faster. A table on stderr, one JSON document on stdout.
#include "ops/operators.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "base/machine.h"
#include "device/device.h"
#include "support/operator_check.h"
#include "support/upstream.h"

namespace lmtrain {
namespace {

using testing::Operator;
using testing::random_tensor;

struct Options {
  int64_t rounds = 10;
  int64_t threads = available_processors();
  int64_t length = 256;
};

struct Contest {
  std::string name;
  Operator ours, composition;
  std::vector<at::Tensor> inputs;
};

std::vector<Contest> contests(int64_t length) {
  constexpr int64_t kPositions = 4096, kHidden = 256, kIntermediate = 704, kVocab = 8192,
                    kHeads = 4;
  const int64_t rows = kPositions / length;
  const auto random = [](at::IntArrayRef shape, uint64_t seed) {
    return random_tensor(shape, seed);
  };
  const at::Tensor x = random({rows, length, kHidden}, 1),
                   residual = random({rows, length, kHidden}, 2);
  const at::Tensor norm = random({kHidden}, 3);
  const at::Tensor angle = random({length, kHidden / kHeads / 2}, 4);
  const at::Tensor cos = angle.cos(), sin = angle.sin();
  const at::Tensor targets = testing::random_integers(0, kVocab, {kPositions}, 5);
  const at::Tensor scale = at::scalar_tensor(1e-3, at::kDouble);
  const at::Tensor ids = testing::random_integers(0, kVocab, {rows, length}, 6);
  const auto one = [](at::Tensor y) { return std::vector<at::Tensor>{std::move(y)}; };
  using Tensors = const std::vector<at::Tensor>&;
  const auto attend = [=](auto function) {
    return [=](Tensors in) { return one(function(in[0], cos, sin, kHeads, kHeads, std::nullopt)); };
  };
  const auto norm_alone = [=](auto function) {
    return [=](Tensors in) { return one(std::get<1>(function(in[0], std::nullopt, in[1], 1e-5))); };
  };
  const auto add_norm = [](auto function) {
    return [=](Tensors in) {
      const auto [h, y] = function(in[0], in[1], in[2], 1e-5);
      return std::vector<at::Tensor>{h, y};
    };
  };
  return {
      {"rms_norm", norm_alone(add_rms_norm), norm_alone(add_rms_norm_reference), {x, norm}},
      {"add_rms_norm",
       add_norm(add_rms_norm),
       add_norm(add_rms_norm_reference),
       {x, residual, norm}},
      {"linear",
       [=](Tensors in) { return one(lmtrain::linear(in[0], in[1])); },
       [=](Tensors in) { return one(at::linear(in[0], in[1])); },
       {x, random({3 * kHidden, kHidden}, 8)}},
      {"rope_attention",
       attend(rope_attention),
       attend(rope_attention_reference),
       {random({rows, length, 3 * kHidden}, 9)}},
      {"swiglu",
       [=](Tensors in) { return one(swiglu(in[0])); },
       [=](Tensors in) { return one(swiglu_reference(in[0])); },
       {random({rows, length, 2 * kIntermediate}, 10)}},
      {"swiglu_linear",
       [=](Tensors in) { return one(swiglu_linear(in[0], in[1])); },
       [=](Tensors in) { return one(swiglu_linear_reference(in[0], in[1])); },
       {random({rows, length, 2 * kIntermediate}, 10), random({kHidden, kIntermediate}, 14)}},
      // The logits are computed, since their gradient overwrites them.
      {"cross_entropy",
       [=](Tensors in) { return one(cross_entropy(in[0] * 1.0, targets, scale, 0)); },
       [=](Tensors in) { return one(cross_entropy_reference(in[0] * 1.0, targets, scale, 0)); },
       {random({kPositions, kVocab}, 11)}},
      {"linear_cross_entropy",
       [=](Tensors in) { return one(linear_cross_entropy(in[0], in[1], targets, scale, 0)); },
       [=](Tensors in) {
         return one(linear_cross_entropy_reference(in[0], in[1], targets, scale, 0));
       },
       // Weights as a model's: logits a few units apart. Gradients below 1e-38 take Intel's
       // processors a hundred times as long.
       {x.view({kPositions, kHidden}), random({kVocab, kHidden}, 13) * 0.02}},
      {"embedding",
       [=](Tensors in) { return one(lmtrain::embedding(ids, in[0])); },
       [=](Tensors in) { return one(at::embedding(in[0], ids)); },
       {random({kVocab, kHidden}, 12)}},
  };
}

// Forward and backward on inputs and upstream gradients made before.
class Runner {
 public:
  Runner(Operator op, const std::vector<at::Tensor>& inputs, at::ScalarType dtype)
      : op_(std::move(op)) {
    for (const at::Tensor& input : inputs) {
      leaves_.push_back(
          input.to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true));
    }
    upstream_ = testing::upstream_of(op_(leaves_));
  }
  double milliseconds() const {
    const auto begin = std::chrono::steady_clock::now();
    torch::autograd::grad(op_(leaves_), leaves_, upstream_);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

 private:
  Operator op_;
  std::vector<at::Tensor> leaves_, upstream_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Options& options) {
  configure_runtime(static_cast<int>(options.threads));
  std::printf("{\"device\": \"%s\", \"length\": %ld, \"rounds\": %ld, \"operators\": [",
              device_description(at::kCPU, static_cast<int>(options.threads)).c_str(),
              static_cast<long>(options.length), static_cast<long>(options.rounds));
  std::fprintf(stderr, "%-20s %-5s %10s %14s %8s\n", "", "", "ms", "composition ms", "ratio");
  const char* separator = "";
  for (const Contest& contest : contests(options.length)) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Runner ours(contest.ours, contest.inputs, dtype);
      const Runner composition(contest.composition, contest.inputs, dtype);
      std::vector<double> mine, theirs, ratios;
      for (int64_t round = 0; round <= options.rounds; ++round) {
        const double a = ours.milliseconds(), b = composition.milliseconds();
        if (round == 0) continue;  // touches memory
        mine.push_back(a);
        theirs.push_back(b);
        ratios.push_back(b / a);
      }
      const char* type = dtype == at::kFloat ? "fp32" : "bf16";
      const double best = *std::min_element(mine.begin(), mine.end());
      const double other = *std::min_element(theirs.begin(), theirs.end());
      std::fprintf(stderr, "%-20s %-5s %10.2f %14.2f %8.2f\n", contest.name.c_str(), type, best,
                   other, median(ratios));
      std::printf(
          "%s\n {\"name\": \"%s\", \"dtype\": \"%s\", \"ms\": %.4f, \"composition_ms\": %.4f, "
          "\"ratio\": %.3f}",
          separator, contest.name.c_str(), type, best, other, median(ratios));
      separator = ",";
    }
  }
  std::printf("\n]}\n");
}

std::optional<Options> parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const int value = std::atoi(arguments[i + 1].c_str());
    if (value < 1) return std::nullopt;
    if (arguments[i] == "--rounds") {
      options.rounds = value;
    } else if (arguments[i] == "--threads") {
      options.threads = value;
    } else if (arguments[i] == "--length" && 4096 % value == 0) {
      options.length = value;
    } else {
      return std::nullopt;
    }
  }
  return arguments.size() % 2 != 0 ? std::nullopt : std::optional(options);
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  const auto options = lmtrain::parse({argv + 1, argv + argc});
  if (!options) {
    std::cerr
        << "usage: bench_operators [--rounds N] [--threads N] [--length T], T a divisor of 4096\n";
    return 2;
  }
  lmtrain::measure(*options);
}
