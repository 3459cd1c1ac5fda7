// The part of Llama that computes layer by layer, with weights that are gathered and released
// (model/module_weights.h); and the cut of the layout into modules and chunks.
#include <torch/csrc/autograd/autograd.h>

#include <exception>
#include <optional>

#include "base/error.h"
#include "device/torch_headers.h"
#include "model/llama.h"
#include "ops/accumulate.h"
#include "ops/flash_attention.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

// A micro-batch on its way through the layers.
struct Passing {
  const MicroBatch& micro;
  std::vector<c10::IValue> attention;
  std::vector<at::Tensor> inputs;  // of the layers and of the head, as far as they are needed
  at::Tensor gradient;             // of the newest input that take_input() has returned
  at::Tensor head_gradient;        // of a tied head
  at::Tensor loss;

  at::Tensor take_input() {
    at::Tensor input = inputs.back().detach().set_requires_grad(true);
    inputs.pop_back();
    return input;
  }
};

// Does work until some of it fails, and then no more. The caller still gathers and releases all
// modules, since the other processes wait for that.
class Attempt {
 public:
  template <class Work>
  void operator()(const Work& work) {
    if (error_) return;
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

}  // namespace

std::vector<ElementRange> module_ranges(const ParameterLayout& layout) {
  std::vector<int64_t> begins;  // of the layers' matrices
  int64_t head = 0;             // where it begins; 0: it is tied
  for (const WorkingSpec& spec : layout.working()) {
    if (spec.key == "lm_head") head = spec.offset;
    const auto layers = static_cast<int64_t>(begins.size());
    if (spec.layer == layers && spec.offset < layout.decayed_size()) begins.push_back(spec.offset);
  }
  begins.push_back(layout.decayed_size());
  std::vector<ElementRange> modules = {{0, head > 0 ? head : begins.front()}};
  for (size_t layer = 0; layer + 1 < begins.size(); ++layer)
    modules.push_back({begins[layer], begins[layer + 1] - begins[layer]});
  if (head > 0) modules.push_back({head, begins.front() - head});
  return modules;
}

// The order is the embedding, the layers, and the head; then back. A tied head is the embedding,
// which is then a neighbour of the last layer too.
Slots module_slots(const ParameterLayout& layout, std::vector<ElementRange> kept) {
  Slots slots{std::move(kept), module_ranges(layout), {}};
  for (size_t module = 0; module < slots.used.size(); ++module) slots.slot_of.push_back(module % 2);
  const bool is_tied = slots.used.back().first >= slots.used[1].first;
  if (is_tied && slots.slot_of.back() == slots.slot_of.front()) slots.slot_of.front() = 2;
  return slots;
}

std::vector<ElementRange> backward_chunks(const ParameterLayout& layout, int64_t least_layers) {
  constexpr int64_t kLeastElements = int64_t{1} << 18;
  const std::vector<ElementRange> modules = module_ranges(layout);
  std::vector<ElementRange> chunks;
  // An untied head lies before the layers. A tied one is finished with the embeddings.
  size_t end = modules.size();
  if (modules.back().first < modules[1].first) chunks.push_back(modules[--end]);
  while (end > 1) {
    ElementRange layers{0, 0};
    int64_t count = 0;
    do {
      --end;
      layers = {modules[end].first, layers.size + modules[end].size};
      ++count;
    } while (end > 1 && (count < least_layers || layers.size < kLeastElements));
    chunks.push_back(layers);
  }
  chunks.push_back(modules.front());
  chunks.push_back({layout.decayed_size(), layout.flat_size() - layout.decayed_size()});
  return chunks;
}

// Sums the gradients of some leaves over the micro-batches of each part, and over the parts.
class Llama::LeafSums {
 public:
  LeafSums(const Llama& model, const at::Tensor& grad, double unscale)
      : model_(model), grad_(grad), unscale_(unscale) {}

  template <class Gradients>
  void add(std::vector<std::vector<Passing>>& parts, const std::vector<size_t>& leaves,
           const Gradients& gradients_of) {
    std::vector<PartTree> trees(leaves.size());
    for (size_t part = 0; part < parts.size(); ++part) {
      bool first = true;
      for (Passing& passing : parts[part]) {
        add_gradients(leaves, first, [&] { return gradients_of(passing); });
        first = false;
      }
      const auto number = static_cast<int64_t>(part);
      for (size_t i = 0; i < leaves.size(); ++i) {
        const at::Tensor sum = sum_of(leaves[i]);
        if (first) sum.zero_();
        if (unscale_ != 1) sum.mul_(unscale_);
        trees[i].complete(number, sum);
        if (part + 1 < parts.size()) trees[i].keep(number, sum);
      }
    }
  }

 private:
  // Adds the gradients that compute() returns, except those that its products have added.
  template <class Compute>
  void add_gradients(const std::vector<size_t>& leaves, bool first, const Compute& compute) {
    std::optional<GradientSums> products;
    if (model_.sums_by_products_) {
      products.emplace();
      for (const size_t leaf : leaves) products->expect(model_.leaves_[leaf], sum_of(leaf), first);
    }
    const std::vector<at::Tensor> gradients = compute();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool added = products && products->has(model_.leaves_[leaves[i]]);
      if (gradients.at(i).defined()) {
        accumulate(gradients[i], sum_of(leaves[i]), first && !added);
      } else if (!added) {
        throw Error(ErrorKind::kInternal, "a weight has no gradient");
      }
    }
  }

  at::Tensor sum_of(size_t leaf) const {
    return grad_.narrow(0, model_.offsets_[leaf], model_.leaves_[leaf].numel());
  }

  const Llama& model_;
  const at::Tensor& grad_;
  double unscale_;
};

std::vector<std::vector<at::Tensor>> Llama::loss_and_gradient_by_modules(
    const std::vector<std::vector<MicroBatch>>& parts, const at::Tensor& grad, double unscale,
    const ElementsFinished& finished) {
  if (modules_ == nullptr)
    throw Error(ErrorKind::kInternal, "the model does not read its weights by modules");
  const at::NoGradGuard no_grad;
  std::vector<std::vector<Passing>> passing(parts.size());
  Attempt attempt;
  attempt([&] {
    for (size_t part = 0; part < parts.size(); ++part) {
      for (const MicroBatch& micro : parts[part])
        passing[part].push_back({micro, attention_arguments(micro), {}, {}, {}, {}});
    }
  });
  const auto for_each = [&](const auto& work) {
    for (auto& part : passing)
      for (Passing& one : part) work(one);
  };
  LeafSums sums(*this, grad, unscale);
  const auto layers = layers_.toListRef();
  const bool is_tied = head_module_ == 0;
  const ParameterLayout& layout = parameters_.layout();
  const std::vector<ElementRange> modules = module_ranges(layout);
  const auto finish = [&](size_t module) { finished(modules[module].first, modules[module].size); };

  pass_forward([&](size_t module) {
    attempt([&] {
      RECORD_USER_SCOPE("forward");
      for_each([&](Passing& one) {
        one.inputs.push_back(
            module == 0
                ? call("embed", {one.micro.ids, weights_})
                : call("whole_layer", {one.inputs.back(), layers[module - 1], one.attention[0],
                                       one.attention[1], one.attention[2], dropout_keys(one.micro),
                                       static_cast<int64_t>(module - 1)}));
      });
    });
  });

  // The head, whose weights are there as soon as they are awaited.
  modules_->await();
  modules_->start(layers.size());
  attempt([&] {
    RECORD_USER_SCOPE("head");
    std::vector<size_t> leaves = {norm_leaf_};
    if (!is_tied) leaves.push_back(head_leaf_);
    sums.add(passing, leaves, [&](Passing& one) {
      const at::Tensor x = one.take_input();
      const at::AutoGradMode record(true);
      const at::Tensor loss =
          call("head_loss", {x, c10::IValue(), one.micro.targets, one.micro.scale, weights_});
      const auto gradients = torch::autograd::grad(
          {loss}, {x, leaves_[norm_leaf_], leaves_[head_leaf_]}, {at::ones_like(loss)});
      one.loss = loss.detach();
      one.gradient = gradients[0];
      if (is_tied) one.head_gradient = gradients[2];
      return is_tied ? std::vector<at::Tensor>{gradients[1]}
                     : std::vector<at::Tensor>{gradients[1], gradients[2]};
    });
  });
  modules_->release(head_module_);
  if (!is_tied) finish(head_module_);

  for (size_t layer = layers.size(); layer-- > 0;) {
    modules_->await();
    if (layer > 0) modules_->start(layer);
    attempt([&] {
      RECORD_USER_SCOPE("backward");
      sums.add(passing, layer_leaves_[layer], [&](Passing& one) {
        std::vector<at::Tensor> inputs = {one.take_input()};
        for (const size_t leaf : layer_leaves_[layer]) inputs.push_back(leaves_[leaf]);
        const at::AutoGradMode record(true);
        const at::Tensor y =
            call("whole_layer",
                 {inputs[0], layers[layer], one.attention[0], one.attention[1], one.attention[2],
                  dropout_keys(one.micro), static_cast<int64_t>(layer)});
        std::vector<at::Tensor> gradients = torch::autograd::grad(
            {y}, inputs, {one.gradient}, /*retain_graph=*/std::nullopt, /*create_graph=*/false,
            /*allow_unused=*/sums_by_products_);
        one.gradient = gradients[0];
        gradients.erase(gradients.begin());
        return gradients;
      });
    });
    modules_->release(1 + layer);
    finish(1 + layer);
  }

  attempt([&] {
    RECORD_USER_SCOPE("backward");
    sums.add(passing, {embed_leaf_}, [&](Passing& one) {
      const at::AutoGradMode record(true);
      // The gradient of the embedding does not depend on its values, which are not there.
      const at::Tensor x = call("embed", {one.micro.ids, weights_});
      at::Tensor gradient = torch::autograd::grad({x}, {leaves_[embed_leaf_]}, {one.gradient})[0];
      if (is_tied) gradient = gradient + one.head_gradient;
      one.head_gradient.reset();
      return std::vector<at::Tensor>{gradient};
    });
  });
  finish(0);
  finished(layout.decayed_size(), layout.flat_size() - layout.decayed_size());
  attempt.rethrow();

  std::vector<std::vector<at::Tensor>> losses(parts.size());
  for (size_t part = 0; part < parts.size(); ++part)
    for (const Passing& one : passing[part]) losses[part].push_back(one.loss);
  return losses;
}

void Llama::pass_forward(const std::function<void(size_t module)>& compute) {
  const size_t num_layers = layer_leaves_.size();
  modules_->start(0);
  for (size_t module = 0; module <= num_layers; ++module) {
    modules_->await();
    modules_->start(module < num_layers ? module + 1 : head_module_);
    compute(module);
    modules_->release(module);
  }
}

at::Tensor Llama::target_losses_by_modules(const MicroBatch* micro) {
  const at::NoGradGuard no_grad;
  const WithoutCudnnAttention no_plans;
  const auto layers = layers_.toListRef();
  Attempt attempt;
  std::vector<c10::IValue> attention;
  at::Tensor x, losses;
  pass_forward([&](size_t module) {
    if (micro == nullptr) return;
    attempt([&] {
      if (module == 0) {
        attention = attention_arguments(*micro);
        x = call("embed", {micro->ids, weights_});
      } else {
        x = call("whole_layer", {x, layers[module - 1], attention[0], attention[1], attention[2],
                                 c10::IValue(), static_cast<int64_t>(module - 1)});
      }
    });
  });
  modules_->await();
  if (micro != nullptr) {
    attempt([&] {
      losses = call("last_losses", {x, micro->targets, weights_}).view_as(micro->targets);
    });
  }
  modules_->release(head_module_);
  attempt.rethrow();
  return losses;
}

void Llama::take_part_in_evaluation() {
  if (modules_ != nullptr) target_losses_by_modules(nullptr);
}

}  // namespace lmtrain
