// bench_gpu_kernels: each operator and update in bf16 on a GPU, beside the ATen composition it
// replaces, forward and backward at the sizes of a model of 124M parameters. One JSON document on
// stdout: microseconds (median of rounds that alternate) with the host's time, for operators
// `device_microseconds` of ours alone, and for ours GB/s by the bytes that must be read and written
// once.
// bench_gpu_kernels packed: attention of packed rows by FlashAttention, as a run computes it,
// beside cuDNN's, which no run takes yet; `speedup` is FlashAttention's, and `difference` the
// largest one of their results and gradients. A process of its own, since cuDNN may end it.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_cudnn_attention_backward.h>
#include <ATen/ops/_cudnn_attention_forward.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "device/captured_graph.h"
#include "device/device.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "ops/flash_attention.h"
#include "ops/fp8.h"
#include "ops/operators.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "support/upstream.h"

namespace lmtrain {
namespace {

constexpr int kRounds = 11;
constexpr int kRepeats = 10;  // a round's time is their mean
constexpr int64_t kPositions = 32768, kHidden = 768, kIntermediate = 2048, kVocab = 32003;
constexpr int64_t kHeads = 12, kHeadSize = 64, kLength = 1024, kBytes = 2;

using Json = nlohmann::ordered_json;

double microseconds(const at::Device& device, const Work& work) {
  const auto wait = [&] { at::detail::getCUDAHooks().deviceSynchronize(device.index()); };
  wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; ++i) work();
  wait();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / kRepeats;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

Json compare(const at::Device& device, const std::string& name, int64_t bytes, const Work& ours,
             const Work& aten) {
  ours();
  aten();
  std::vector<double> our_times, aten_times;
  for (int round = 0; round < kRounds; ++round) {
    our_times.push_back(microseconds(device, ours));
    aten_times.push_back(microseconds(device, aten));
  }
  const double mine = median(our_times), theirs = median(aten_times);
  return {{"name", name},
          {"microseconds", mine},
          {"aten_microseconds", theirs},
          {"speedup", theirs / mine},
          {"gigabytes_per_second", static_cast<double>(bytes) / mine * 1e-3}};
}

// What the device takes alone: the work is launched as a graph. A host takes 0.1 ms and more to
// queue a forward and a backward, longer than a GPU has to do at a small operator.
double device_microseconds(const at::Device& device, const Work& work) {
  const auto recorder = graph_recorder(device);
  recorder->warm_up(work);
  const auto graph = recorder->capture(work);
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round)
    times.push_back(microseconds(device, [&] { graph->launch(); }));
  return median(times);
}

// Forward, and backward from gradients that are made before, in memory of their own.
Work both_ways(const std::vector<at::Tensor>& leaves,
               const std::function<std::vector<at::Tensor>()>& op) {
  return
      [=, upstream = testing::upstream_of(op())] { torch::autograd::grad(op(), leaves, upstream); };
}

Json operators(const at::Device& device) {
  const auto leaf = [&](at::IntArrayRef shape) {
    return at::randn(shape, at::TensorOptions(device).dtype(at::kBFloat16)).requires_grad_(true);
  };
  Json results = Json::array();
  const auto add = [&](const std::string& name, int64_t bytes,
                       const std::vector<at::Tensor>& leaves, const auto& op) {
    const Work ours = both_ways(leaves, [=] { return op(true); });
    Json row = compare(device, name, bytes, ours, both_ways(leaves, [=] { return op(false); }));
    try {
      const double alone = device_microseconds(device, ours);
      row["device_microseconds"] = alone;
      row["gigabytes_per_second"] = static_cast<double>(bytes) / alone * 1e-3;
    } catch (const std::exception& error) {  // the other times count all the same
      row["reason_of_no_graph"] = error.what();
    }
    results.push_back(row);
  };
  using Tensors = std::vector<at::Tensor>;
  const at::Tensor x = leaf({kPositions, kHidden}), w = leaf({kHidden});
  add("rms_norm", 5 * kPositions * kHidden * kBytes, {x, w}, [=](bool ours) {
    return Tensors{std::get<1>((ours ? add_rms_norm : add_rms_norm_reference)(x, {}, w, 1e-5))};
  });
  // As in a layer: the sum of x and a residual goes on beside y, and both have gradients. The
  // widths are those of models of 124M, 350M and 1.1B parameters.
  for (const int64_t width : {kHidden, int64_t{1024}, int64_t{2048}}) {
    const at::Tensor a = leaf({kPositions, width}), b = leaf({kPositions, width});
    const at::Tensor scale = leaf({width});
    add("add_rms_norm_" + std::to_string(width), 8 * kPositions * width * kBytes, {a, b, scale},
        [=](bool ours) {
          const auto [h, y] = (ours ? add_rms_norm : add_rms_norm_reference)(a, b, scale, 1e-5);
          return Tensors{h, y};
        });
  }
  const at::Tensor qkv = leaf({kPositions / kLength, kLength, 3 * kHidden});
  const at::Tensor angle =
      at::randn({kLength, kHeadSize / 2}, at::TensorOptions(device).dtype(at::kFloat));
  const at::Tensor cos = angle.cos(), sin = angle.sin();
  // As in a step: forward two thirds, where they are, and backward all.
  add("qkv_rope", 10 * qkv.numel() / 3 * kBytes, {qkv}, [=](bool ours) {
    const auto [q, k, v] =
        (ours ? qkv_rope_in_place : qkv_rope_reference)(qkv, cos, sin, kHeads, kHeads);
    return Tensors{q, k, v};
  });
  const at::Tensor gate_up = leaf({kPositions, 2 * kIntermediate});
  add("swiglu", 8 * kPositions * kIntermediate * kBytes, {gate_up},
      [=](bool ours) { return Tensors{ours ? swiglu(gate_up) : swiglu_reference(gate_up)}; });
  // A quarter of the positions, since ATen needs several tensors of this size in fp32. Both are
  // given a copy, as ours overwrites it: its bytes count.
  const at::Tensor logits = leaf({kPositions / 4, kVocab});
  const at::Tensor targets =
      at::zeros({kPositions / 4}, at::TensorOptions(device).dtype(at::kLong));
  const at::Tensor one = at::ones({}, at::TensorOptions(device).dtype(at::kDouble));
  add("cross_entropy", 4 * logits.numel() * kBytes, {logits}, [=](bool ours) {
    const at::Tensor copy = logits.clone();
    return Tensors{ours ? cross_entropy(copy, targets, one, 0.0)
                        : cross_entropy_reference(copy, targets, one, 0.0)};
  });
  const at::Tensor weight = leaf({kVocab, kHidden});
  const at::Tensor ids =
      at::randint(kVocab, {kPositions}, at::TensorOptions(device).dtype(at::kLong));
  add("embedding", (3 * kPositions + kVocab) * kHidden * kBytes, {weight}, [=](bool ours) {
    return Tensors{ours ? lmtrain::embedding(ids, weight) : at::embedding(weight, ids)};
  });
  return results;
}

// y_NHE of cuDNN's attention over segments, and its gradients for dy_NHE.
std::vector<at::Tensor> cudnn_attention(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const at::Tensor& segments,
                                        const at::Tensor& dy) {
  const at::NoGradGuard no_grad;
  const auto forward = at::_cudnn_attention_forward(q, k, v, /*attn_bias=*/{}, segments, segments,
                                                    kLength, kLength, /*compute_log_sumexp=*/true,
                                                    /*dropout_p=*/0.0, /*is_causal=*/true);
  const auto [dq, dk, dv] = at::_cudnn_attention_backward(
      dy, q, k, v, std::get<0>(forward), std::get<1>(forward), std::get<6>(forward),
      std::get<7>(forward), /*attn_bias=*/at::Tensor(), segments, segments, kLength, kLength,
      /*dropout_p=*/0.0, /*is_causal=*/true);
  return {std::get<0>(forward), dq, dk, dv};
}

// Packed rows: segments of 128 positions on average, each within a row.
Json packed_attention(const at::Device& device) {
  const int64_t rows = kPositions / kLength;
  const at::Tensor begins = (at::rand({kPositions}) < 1.0 / 128)
                                .logical_or(at::arange(kPositions).remainder(kLength) == 0);
  const at::Tensor segments =
      at::cat({begins.nonzero().flatten(), at::full({1}, kPositions, at::kLong)})
          .to(device, at::kInt);
  const auto heads = [&] {
    return at::randn({rows, kLength, kHeads, kHeadSize},
                     at::TensorOptions(device).dtype(at::kBFloat16));
  };
  std::vector<at::Tensor> leaves;
  for (int i = 0; i < 3; ++i) leaves.push_back(heads().requires_grad_(true));
  const at::Tensor dy = heads();
  const auto by_flash_attention = [&] {
    const at::Tensor y = flash_attention(leaves[0].transpose(1, 2), leaves[1].transpose(1, 2),
                                         leaves[2].transpose(1, 2), segments)
                             .transpose(1, 2);
    std::vector<at::Tensor> all = torch::autograd::grad({y}, leaves, {dy});
    all.insert(all.begin(), y);
    return all;
  };
  const auto by_cudnn = [&] {
    const auto flat = [](const at::Tensor& x) { return x.detach().flatten(0, 1); };
    return cudnn_attention(flat(leaves[0]), flat(leaves[1]), flat(leaves[2]), segments, flat(dy));
  };
  Json row = {{"name", "packed_attention"}};
  try {
    double difference = 0;
    const std::vector<at::Tensor> expected = by_flash_attention(), found = by_cudnn();
    for (size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor apart = expected[i].detach().flatten(0, 1).to(at::kFloat) - found[i];
      difference = std::max(difference, apart.abs().max().item<double>());
    }
    row = compare(device, "packed_attention", 0, by_flash_attention, by_cudnn);
    row.erase("gigabytes_per_second");
    row["difference"] = difference;
  } catch (const std::exception& error) {
    row["error"] = error.what();
  }
  return Json::array({row});
}

// A cast beside ATen's, and products of sizes from which fp8 may pay beside ATen's in bf16.
Json in_fp8(const at::Device& device) {
  try {
    resolve_precision("fp8", device);
  } catch (const Error&) {
    return Json::array();  // not on this GPU
  }
  constexpr int64_t kRows = kPositions / 2, kWide = 2048, kOut = 3 * kWide;
  const auto options = at::TensorOptions(device).dtype(at::kBFloat16);
  const at::Tensor x = at::randn({kRows, kWide}, options).requires_grad_(true);
  const at::Tensor weight = at::randn({kOut, kWide}, options).requires_grad_(true);
  const int64_t moved = 3 * x.numel() + 3 * weight.numel() + 2 * kRows * kOut;
  const at::Tensor gate_up = at::randn({kOut, kWide}, options).div_(45).requires_grad_(true);
  const at::Tensor down = at::randn({kWide, kOut / 2}, options).div_(55).requires_grad_(true);
  return {
      compare(
          device, "fp8_cast", 6 * x.numel(),
          [&] {
            const at::NoGradGuard no_grad;
            fp8_cast(x, fp8_amax(x), at::kFloat8_e4m3fn, Fp8Layout::kBoth);
          },
          [&] {
            const at::NoGradGuard no_grad;
            const at::Tensor scale = 448 / x.abs().amax().to(at::kFloat);
            (x * scale).clamp(-448, 448).to(at::kFloat8_e4m3fn).t().contiguous();
          }),
      compare(
          device, "fp8_linear", moved * kBytes,
          both_ways({x, weight}, [=] { return std::vector<at::Tensor>{fp8_linear(x, weight)}; }),
          both_ways({x, weight}, [=] { return std::vector<at::Tensor>{at::linear(x, weight)}; })),
      // Beside its parts: what it saves is the passes for amax of 3 x kOut / 2 columns.
      compare(device, "fp8_mlp", 0,
              both_ways({x, gate_up, down},
                        [=] { return std::vector<at::Tensor>{fp8_mlp(x, gate_up, down)}; }),
              both_ways({x, gate_up, down}, [=] {
                return std::vector<at::Tensor>{fp8_mlp_reference(x, gate_up, down)};
              }))};
}

Json updates(const at::Device& device) {
  ModelConfig model;
  model.hidden_size = kHidden;
  model.intermediate_size = kIntermediate;
  model.num_hidden_layers = model.num_attention_heads = model.num_key_value_heads = kHeads;
  Parameters parameters(ParameterLayout(model, kVocab), at::kBFloat16, device);
  parameters.initialize(1, 0.02);
  const at::Tensor grad = at::randn_like(parameters.master());
  const at::Tensor master = parameters.master().clone(), working = parameters.working().clone();
  const at::Tensor first = at::zeros_like(grad), second = at::zeros_like(grad);
  const at::Tensor count = at::ones({}, grad.options());
  const auto adamw = std::shared_ptr(make_optimizer(OptimizerConfig{}, parameters));
  const int64_t size = grad.numel();
  return {compare(
              device, "adamw", 30 * size,
              [&] {
                adamw->update({1, 1e-3, 1, {.total = 10, .steps = 1}}, grad);
              },
              [&] {
                at::_fused_adamw_({master}, {grad}, {first}, {second}, {}, {count}, 1e-3, 0.9, 0.95,
                                  0.1, 1e-8, false, false);
                working.copy_(master);
              }),
          compare(
              device, "gradient_norm", 4 * size, [&] { gradient_norm(grad, parameters.layout()); },
              [&] { at::linalg_vector_norm(grad, 2, {}, false, at::kDouble).item<double>(); })};
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  try {
    const at::Device device = lmtrain::resolve_device("cuda");
    if (!lmtrain::cuda_kernels_serve(device)) return 1;  // the log says why
    const bool packed = argc > 1 && std::string(argv[1]) == "packed";
    lmtrain::Json results = packed ? lmtrain::packed_attention(device) : lmtrain::operators(device);
    if (!packed) {
      for (const lmtrain::Json& more : {lmtrain::in_fp8(device), lmtrain::updates(device)})
        results.insert(results.end(), more.begin(), more.end());
    }
    std::cout << results.dump(1) << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
