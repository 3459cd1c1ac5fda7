// bench_optimizers [--rounds N] [--threads N] [--size 7m|30m] [--precision fp32|bf16]
//
// Seconds of an update of every rule beside PyTorch's fused AdamW (the operator behind
// torch.optim.AdamW(fused=True)) on the same tensors in one run. A round times ten updates of each,
// one after another, in turn: the time of an update is a tenth of that, so SOAP's new bases count.
// A table on stderr, one JSON document on stdout.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/machine.h"
#include "device/device.h"
#include "kernels/cpu/kernels.h"
#include "optim/muon.h"
#include "optim/support.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kUpdates = 10;  // as often as SOAP's bases change

struct Options {
  int64_t rounds = 20;
  int64_t threads = available_processors();
  std::string size = "7m";
  std::string precision = "fp32";
};

ModelConfig model_of(const std::string& size) {
  ModelConfig model;
  model.hidden_size = size == "30m" ? 512 : 256;
  model.intermediate_size = size == "30m" ? 1408 : 704;
  model.num_hidden_layers = size == "30m" ? 8 : 6;
  model.num_attention_heads = model.num_key_value_heads = size == "30m" ? 8 : 4;
  return model;
}

class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void update(int64_t number) = 0;
};

// A parameter, gradient and moments each, as PyTorch has them.
class Torch : public Contestant {
 public:
  explicit Torch(const ParameterLayout& layout) {
    for (const ParameterSpec& spec : layout.parameters()) {
      weights_.push_back(testing::random_tensor(spec.shape, 1));
      grads_.push_back(testing::random_tensor(spec.shape, 2));
      first_.push_back(at::zeros(spec.shape));
      second_.push_back(at::zeros(spec.shape));
      steps_.push_back(at::zeros({}));
    }
  }
  void update(int64_t) override {
    for (at::Tensor& step : steps_) step.add_(1);
    at::_fused_adamw_(weights_, grads_, first_, second_, {}, steps_, 1e-3, 0.9, 0.95, 0.1, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
  }

 private:
  std::vector<at::Tensor> weights_, grads_, first_, second_, steps_;
};

class Ours : public Contestant {
 public:
  Ours(const std::string& type, const ParameterLayout& layout, at::ScalarType dtype)
      : parameters_(layout, dtype, at::kCPU),
        optimizer_(make_optimizer(testing::config_of(type), parameters_)),
        grad_(testing::random_tensor(parameters_.master().sizes(), 2)) {
    parameters_.initialize(1, 0.02);
    for (const OptimizerBuffer& buffer : optimizer_->buffers()) bytes_ += buffer.values.nbytes();
  }
  void update(int64_t number) override {
    optimizer_->update({number, 1e-3, 1, {.total = 1e4, .steps = static_cast<double>(number)}},
                       grad_);
  }
  size_t state_bytes() const { return bytes_; }

 private:
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  at::Tensor grad_;
  size_t bytes_ = 0;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Json measure(const Options& options) {
  at::set_num_threads(static_cast<int>(options.threads));
  const at::ScalarType dtype = options.precision == "bf16" ? at::kBFloat16 : at::kFloat;
  const ParameterLayout layout(model_of(options.size), 8192);
  std::vector<std::pair<std::string, std::unique_ptr<Contestant>>> all;
  all.emplace_back("torch", std::make_unique<Torch>(layout));
  for (const char* type : {"adamw", "lion", "ademamix", "muon", "normuon", "soap", "sgd", "rmsprop",
                           "adam", "adopt", "mars"}) {
    all.emplace_back(type, std::make_unique<Ours>(type, layout, dtype));
  }
  std::map<std::string, std::vector<double>> seconds;
  for (int64_t round = 0; round <= options.rounds; ++round) {
    for (auto& [name, contestant] : all) {
      const double block = seconds_of([&, &one = contestant] {
        for (int64_t i = 1; i <= kUpdates; ++i) one->update(round * kUpdates + i);
      });
      // The first round touches memory, and SOAP's first update is another one.
      if (round > 0) seconds[name].push_back(block / kUpdates);
    }
  }

  Json report = {{"size", options.size},
                 {"parameters", layout.num_parameters()},
                 {"precision", options.precision},
                 {"threads", options.threads},
                 {"device", device_description(at::kCPU, static_cast<int>(options.threads))},
                 {"newton_schulz", at::toString(newton_schulz_dtype(at::zeros({1})))},
                 {"rounds", options.rounds},
                 {"rules", Json::object()}};
  std::fprintf(stderr, "%-10s %12s %12s %10s %10s %12s\n", "", "min ms", "median ms", "min ratio",
               "median", "state bytes");
  for (const auto& [name, contestant] : all) {
    const std::vector<double>& mine = seconds[name];
    const std::vector<double>& torch = seconds["torch"];
    std::vector<double> ratios;
    for (size_t i = 0; i < mine.size(); ++i) ratios.push_back(mine[i] / torch[i]);
    const auto* ours = dynamic_cast<const Ours*>(contestant.get());
    const double least = *std::min_element(mine.begin(), mine.end());
    const double least_torch = *std::min_element(torch.begin(), torch.end());
    Json& entry = report["rules"][name];
    entry = {{"seconds_min", least},
             {"seconds_median", median(mine)},
             {"ratio_of_minima", least / least_torch},
             {"ratio_median", median(ratios)}};
    if (ours != nullptr) entry["state_bytes"] = ours->state_bytes();
    std::fprintf(stderr, "%-10s %12.3f %12.3f %10.2f %10.2f %12zu\n", name.c_str(), 1e3 * least,
                 1e3 * median(mine), least / least_torch, median(ratios),
                 ours == nullptr ? size_t{0} : ours->state_bytes());
  }
  return report;
}

std::optional<Options> parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::string& key = arguments[i];
    const std::string& value = arguments[i + 1];
    if (key == "--rounds") {
      options.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (key == "--threads") {
      options.threads = std::max(1, std::atoi(value.c_str()));
    } else if (key == "--size" && (value == "7m" || value == "30m")) {
      options.size = value;
    } else if (key == "--precision" && (value == "fp32" || value == "bf16")) {
      options.precision = value;
    } else {
      return std::nullopt;
    }
  }
  if (arguments.size() % 2 != 0) return std::nullopt;
  return options;
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  const auto options = lmtrain::parse({argv + 1, argv + argc});
  if (!options) {
    std::cerr << "usage: bench_optimizers [--rounds N] [--threads N] [--size 7m|30m] "
                 "[--precision fp32|bf16]\n";
    return 2;
  }
  std::cout << lmtrain::measure(*options).dump(1) << std::endl;
}
