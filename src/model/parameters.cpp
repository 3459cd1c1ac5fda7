#include "model/parameters.h"

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "config/model_family.h"
#include "device/device.h"
#include "device/dispatch.h"
#include "device/gpu_normals.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {
namespace {

// Matrices begin at multiples of this many elements: 256 bytes in fp32, 128 in bf16, what matmul
// libraries like.
constexpr int64_t kAlignment = 64;

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t aligned(int64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Returns whether the output of the matrix is added to the residual stream.
bool is_layer_output(const ParameterSpec& spec) {
  return spec.name.ends_with(".self_attn.o_proj.weight") ||
         spec.name.ends_with(".mlp.down_proj.weight");
}

// The seed of a tensor's own random numbers.
uint64_t key_of(const ParameterSpec& spec, int64_t seed) {
  return hash_combine(static_cast<uint64_t>(seed), hash64(spec.name));
}

// Elements that go to a GPU at once when weights are made: 64 MiB.
constexpr int64_t kMadeAtOnce = int64_t{16} << 20;

// Writes the random elements [first, first + count) of the tensor with this key to `values`.
void make_normals(uint64_t key, double initializer_range, int64_t first, int64_t count,
                  float* values) {
  parallel_for_queued(count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<uint64_t>(first + i);
      values[i] =
          static_cast<float>(initializer_range * random_normal(key, RandomStream::kInit, index));
    }
  });
}

// Sets a tensor of any device.
void initialize_values(const ParameterSpec& spec, int64_t seed, double initializer_range,
                       Initializer initializer, const at::Tensor& values) {
  if (spec.shape.size() == 1) {
    values.fill_(spec.name.ends_with(".bias") ? 0.0 : 1.0);
    return;
  }
  if (initializer == Initializer::kZeroOutputs && is_layer_output(spec)) {
    values.zero_();
    return;
  }
  const uint64_t key = key_of(spec, seed);
  const bool is_fp32 = values.scalar_type() == at::kFloat;
  if (values.is_cpu() && is_fp32) {
    make_normals(key, initializer_range, 0, spec.numel(), values.data_ptr<float>());
    return;
  }
  if (is_fp32 && has_cuda_kernel(values)) {
    fill_with_normals(values, hash_combine(key, static_cast<uint64_t>(RandomStream::kInit)),
                      initializer_range);
    return;
  }
  // The threads make the next elements while a GPU fetches these; no host memory holds them all.
  for (int64_t first = 0; first < spec.numel(); first += kMadeAtOnce) {
    const int64_t count = std::min(kMadeAtOnce, spec.numel() - first);
    const at::Tensor made = host_buffer({count}, at::kFloat, values.device());
    make_normals(key, initializer_range, first, count, made.data_ptr<float>());
    values.narrow(0, first, count).copy_(made, /*non_blocking=*/true);
  }
}

// Checks block by block, so that isfinite() allocates little beside the weights.
bool all_finite(const at::Tensor& flat) {
  constexpr int64_t kChunk = int64_t{1} << 24;
  for (int64_t begin = 0; begin < flat.numel(); begin += kChunk) {
    const at::Tensor chunk = flat.narrow(0, begin, std::min(kChunk, flat.numel() - begin));
    if (!chunk.isfinite().all().item<bool>()) return false;
  }
  return true;
}

}  // namespace

int64_t ParameterSpec::numel() const { return product(shape); }

int64_t WorkingSpec::numel() const { return product(shape); }

int64_t ParameterLayout::add(std::string name, std::vector<int64_t> shape) {
  const int64_t offset = flat_size_;
  flat_size_ += product(shape);
  parameters_.push_back({std::move(name), std::move(shape), offset});
  return offset;
}

void ParameterLayout::add_working(int64_t layer, std::string key, std::vector<int64_t> shape,
                                  int64_t offset) {
  working_.push_back({layer, std::move(key), std::move(shape), offset});
  flat_size_ = aligned(flat_size_);
}

ParameterLayout::ParameterLayout(const ModelConfig& model, int64_t vocab_size) {
  const int64_t d = model.hidden_size;
  const int64_t f = model.intermediate_size;
  const int64_t q = model.num_attention_heads * model.resolved_head_dim();
  const int64_t kv = model.num_key_value_heads * model.resolved_head_dim();
  attention_width_ = static_cast<double>(model.num_hidden_layers) * static_cast<double>(q);
  constexpr double kMost = 0x1p50;
  const double all = count_parameters(model, vocab_size);
  if (all > kMost) {
    throw Error(ErrorKind::kConfig,
                str("the model has ", format_count(all),
                    " parameters; lower model.hidden_size or another of its sizes"));
  }

  int64_t offset = add("model.embed_tokens.weight", {vocab_size, d});
  add_working(-1, "embed_tokens", {vocab_size, d}, offset);
  if (!model.tie_word_embeddings) offset = add("lm_head.weight", {vocab_size, d});
  add_working(-1, "lm_head", {vocab_size, d}, offset);
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const std::string prefix = str("model.layers.", layer, ".");
    offset = add(prefix + "self_attn.q_proj.weight", {q, d});
    add(prefix + "self_attn.k_proj.weight", {kv, d});
    add(prefix + "self_attn.v_proj.weight", {kv, d});
    add_working(layer, "qkv_proj", {q + 2 * kv, d}, offset);
    offset = add(prefix + "self_attn.o_proj.weight", {d, q});
    add_working(layer, "o_proj", {d, q}, offset);
    offset = add(prefix + "mlp.gate_proj.weight", {f, d});
    add(prefix + "mlp.up_proj.weight", {f, d});
    add_working(layer, "gate_up_proj", {2 * f, d}, offset);
    offset = add(prefix + "mlp.down_proj.weight", {d, f});
    add_working(layer, "down_proj", {d, f}, offset);
  }
  decayed_size_ = flat_size_;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const std::string prefix = str("model.layers.", layer, ".");
    if (model.has_qkv_bias()) {
      offset = add(prefix + "self_attn.q_proj.bias", {q});
      add(prefix + "self_attn.k_proj.bias", {kv});
      add(prefix + "self_attn.v_proj.bias", {kv});
      add_working(layer, "qkv_bias", {q + 2 * kv}, offset);
    }
    if (model.has_qk_norm()) {
      for (const char* key : {"q_norm", "k_norm"}) {
        offset = add(str(prefix, "self_attn.", key, ".weight"), {model.resolved_head_dim()});
        add_working(layer, key, {model.resolved_head_dim()}, offset);
      }
    }
    for (const char* key : {"input_layernorm", "post_attention_layernorm"}) {
      offset = add(str(prefix, key, ".weight"), {d});
      add_working(layer, key, {d}, offset);
    }
  }
  offset = add("model.norm.weight", {d});
  add_working(-1, "norm", {d}, offset);
}

int64_t ParameterLayout::num_parameters() const {
  int64_t total = 0;
  for (const ParameterSpec& spec : parameters_) total += spec.numel();
  return total;
}

double ParameterLayout::flops_per_token(int64_t length) const {
  return 6.0 * static_cast<double>(num_parameters()) +
         12.0 * attention_width_ * static_cast<double>(length);
}

double ParameterLayout::causal_flops_per_token(int64_t length) const {
  return 6.0 * static_cast<double>(num_parameters()) +
         6.0 * attention_width_ * static_cast<double>(length);
}

Parameters::Parameters(ParameterLayout layout, at::ScalarType working_dtype, at::Device device)
    : layout_(std::move(layout)),
      master_(at::zeros({layout_.flat_size()},
                        at::TensorOptions(device).dtype(
                            working_dtype == at::kDouble ? at::kDouble : at::kFloat))),
      working_(working_dtype == master_.scalar_type() ? master_
                                                      : at::zeros_like(master_, working_dtype)) {}

Parameters::Parameters(ParameterLayout layout, at::Tensor master, at::Tensor working)
    : layout_(std::move(layout)), master_(std::move(master)), working_(std::move(working)) {}

Parameters Parameters::releasable(ParameterLayout layout, at::ScalarType working_dtype) {
  const int64_t size = layout.flat_size();
  const at::Tensor master = releasable_zeros(size, at::kFloat);
  const at::Tensor working =
      working_dtype == at::kFloat ? master : releasable_zeros(size, working_dtype);
  return {std::move(layout), master, working};
}

Parameters Parameters::in_fp32() const { return {layout_, master_, master_}; }

at::Tensor Parameters::master_view(const ParameterSpec& spec) const {
  return master_.narrow(0, spec.offset, spec.numel()).view(spec.shape);
}

void Parameters::initialize(int64_t seed, double initializer_range, Initializer initializer) {
  initialize_masters(seed, initializer_range, initializer,
                     [](const ParameterSpec&) { return true; });
  refresh_working();
}

void Parameters::initialize_masters(int64_t seed, double initializer_range, Initializer initializer,
                                    const std::function<bool(const ParameterSpec&)>& takes) {
  for (const ParameterSpec& spec : layout_.parameters()) {
    if (!takes(spec)) continue;
    initialize_values(spec, seed, initializer_range, initializer, master_view(spec).view({-1}));
  }
}

void Parameters::refresh_working() { refresh_working(0, layout_.flat_size()); }

void Parameters::refresh_working(int64_t first, int64_t size) {
  if (working_.is_same(master_)) return;
  working_.narrow(0, first, size).copy_(master_.narrow(0, first, size));
}

std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat,
                             const std::function<bool(const ParameterSpec&)>& looks_at) {
  for (const ParameterSpec& spec : layout.parameters()) {
    if (looks_at && !looks_at(spec)) continue;
    if (!all_finite(flat.narrow(0, spec.offset, spec.numel()))) return spec.name;
  }
  return "";
}

}  // namespace lmtrain
